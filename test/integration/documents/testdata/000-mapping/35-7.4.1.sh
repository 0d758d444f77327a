gpuctl remove node node1 --pool train-pool
