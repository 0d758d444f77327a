kubectl label nodes node1 g8s.host/pool-
kubectl label nodes node2 g8s.host/pool-
