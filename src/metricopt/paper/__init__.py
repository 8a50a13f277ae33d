"""The paper's method, each equation once.

With the paper open:

| in the paper | here |
|---|---|
| Eq. 1, metric and loss together | `guided.MetricGuided(combine="add")` |
| trajectories of finetuning, K observations each | `collect.collect`, `workers.collect_in_groups` |
| metric interpolation, M_t and s_t | `interpolate.interpolate` |
| value function f, embedding g | `network.ValueNetwork` |
| Eq. 2: L_v, L_regress, L_oe, Fisher's ratio, hard mining | `equation_2_objective` |
| Reptile's inner steps and meta-update | `training.fit`, `reptile.move_towards` |
| Eq. 3: Sigma and the perturbations | `equation_3_covariance` |
| Eq. 4: u_t | `equation_4_direction` |
| MetricOpt with SGD or Adam | `guided.MetricGuided` |
| Algorithm 1: meta-training, meta-testing | `stages.learn_value_function`, `stages.finetune` |
| the supplement: Eqs. S1 to S3, Algorithm S1 | `learned` |

`_single_phi` and `_folded` say Eqs. 3 and 4 and the network a second time, for speed, and are tested against them.
"""
