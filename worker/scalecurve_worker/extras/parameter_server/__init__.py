"""Parameter servers: processes beside the workers that hold a share of the parameters each, reached by TCP.

J. Dean et al., "Large scale distributed deep networks", NIPS 2012 (Downpour SGD: sharded servers, Adagrad there);
M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
"""
