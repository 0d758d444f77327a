kubectl label nodes node1 node2 g8s.host/pool=train-pool
