kubectl label nodes node1 g8s.host/pool-
