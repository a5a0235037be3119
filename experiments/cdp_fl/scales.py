"""Settings by scale that the figures share."""

from experiments.cdp_fl.problem import Setting

LOGISTIC, NETWORK = Setting("logistic"), Setting("network")
SMALL = dict(dataset="digits", num_devices=8, num_selected=5, num_train=160, num_test=40, repeats=3)
QUICK_LOGISTIC, QUICK_NETWORK = LOGISTIC._replace(**SMALL), NETWORK._replace(**SMALL)
