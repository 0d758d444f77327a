// Package recovery deals with nodes that fail: it keeps new pods off them until they have been well for a while, and when a
// node is certainly dead it has Kubernetes end the pods that were on it, so that their jobs run elsewhere.
//
// Kubernetes alone leaves a Job on a dead node forever, because the pod may still be running, cut off from the control plane
// and not from its storage. It is told that the machine is off by the taint node.kubernetes.io/out-of-service: the taint
// controller then deletes the pods of the node, and the garbage collector of pods sets them to Failed. Whoever sets that
// taint answers for it that no pod runs on. This package sets it on these words alone:
//
//   - the cloud's, which taints the node of an instance that is shut down: node.cloudprovider.kubernetes.io/shutdown
//   - an administrator's, who says how long after its last sign of life a machine of this cluster is certainly off, because
//     a watchdog or fencing has seen to it: [Settings.OutOfServiceAfter]
//
// and only while few nodes of a pool are silent at once: when many are, it is rather the view that is broken.
//
// [Decide] is a pure function of the nodes of a pool. The [Reconciler] gathers what it is asked about, carries out what it
// says and tells so by events.
package recovery
