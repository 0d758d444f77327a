// Package devices knows which cards of a node are free. It joins the scheduler's view of a node to the pure core in
// pkg/gpu, once for all profiles of a process.
//
// Who is on a node comes from the NodeInfo that a plugin was handed, and from nowhere else, so that a dry run of
// preemption sees what it removed. Which cards a pod holds comes from a table by pod UID, written when the cards are
// chosen; else from the pod's annotation g8s.host/gpu-devices, the durable form of the same, which is all there is
// after a restart; else it is not known, and counts as the worst that the pod's request allows. There is no counter
// that could disagree with these.
package devices
