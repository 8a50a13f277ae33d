"""The supplement: an optimizer that is learnt together with the value function, each equation once.

| in the supplement | here |
|---|---|
| Eq. S1: inputs, MLP, step and direction | `inputs`, `equation_s1_rule.MlpRule` |
| the same, one MLP for all of phi | `whole_rule.WholeRule` |
| Eq. S2: L_opt, L_metric, L_loss | `equation_s2_objective` |
| Eq. S3 and its two unbiased estimators, combined | `equation_s3_estimators` |
| the unrolled finetuning and its derivative | `unroll` |
| the value function learnt on the fly | `online_value` |
| Algorithm S1 | `meta_training.meta_train` |
| meta-testing | `optimizer.LearnedOptimizer` |
"""
