"""Parameter servers: processes next to the workers that each hold a share of the parameters, over TCP.

J. Dean et al., "Large scale distributed deep networks", NIPS 2012 (Downpour SGD: sharded servers, Adagrad there);
M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
"""
