gpuctl add node node1 node2 --pool train-pool
