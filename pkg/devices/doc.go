// Package devices tracks which GPUs of a node are free. It connects the scheduler's view of a node to the pure core in pkg/gpu, once for all
// profiles of a process.
//
// The pods of a node come from the NodeInfo that a plugin was given, and from nowhere else, so that a dry run of preemption sees what it
// removed. The GPUs of a pod come from a table by pod UID, written when the GPUs are chosen; else from the pod's annotation
// g8s.host/gpu-devices, the durable form of the same, which is all that remains after a restart; else they are unknown, and count as the worst
// that the pod's request allows. No counter can disagree with these.
package devices
