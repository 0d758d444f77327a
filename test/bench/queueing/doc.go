// Package queueing replays a list of jobs on a cluster of 8-GPU nodes under a queueing policy, in virtual time, and
// measures how long the jobs waited and what the cluster did meanwhile.
//
// It is where policies for gangs are compared: FIFO, backfill with and without reservations, shortest job first, and pod
// by pod as kube-scheduler does it without gangs are here, and a Policy is all that another needs to be. There is no
// Kubernetes, no clock and no chance in it: equal inputs give equal results. What it leaves out is whatever is not
// queueing: priorities, preemption, failures, CPU and memory, and the time that a start takes.
package queueing
