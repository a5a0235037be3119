"""Data sets and their partition over clients."""

from fedjax_priv.data.client_arrays import federate as federate
from fedjax_priv.data.client_arrays import stack_clients as stack_clients
from fedjax_priv.data.dataset import Dataset as Dataset
from fedjax_priv.data.images import cifar10 as cifar10
from fedjax_priv.data.images import digits as digits
from fedjax_priv.data.images import mnist as mnist
from fedjax_priv.data.partition import dirichlet as dirichlet
from fedjax_priv.data.partition import gamma_similarity as gamma_similarity
from fedjax_priv.data.partition import iid as iid
from fedjax_priv.data.partition import quantity_skew as quantity_skew
from fedjax_priv.data.partition import shards as shards
from fedjax_priv.data.pool import Pool as Pool
from fedjax_priv.data.pool import pool_of as pool_of
from fedjax_priv.data.pool import prefetch as prefetch
from fedjax_priv.data.tabular import adult as adult
