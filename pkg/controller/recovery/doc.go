// Package recovery handles failing nodes: it keeps new pods off them until they have been healthy for a while. When a node is certainly dead, it
// makes Kubernetes end the node's pods, so that their jobs run elsewhere.
//
// Kubernetes alone leaves a Job on a dead node forever, because the pod may still be running, cut off from the control plane but not from its
// storage. The taint node.kubernetes.io/out-of-service tells it that the machine is off: the taint controller then deletes the pods of the node, and
// the pod garbage collector sets them to Failed. Whoever sets that taint guarantees that no pod keeps running. This package sets it only on this
// evidence:
//
//   - the cloud's: its controller taints the node of an instance that is shut down: node.cloudprovider.kubernetes.io/shutdown
//   - the administrator's: a setting says how long after its last sign of life a machine of this cluster is certainly off, because
//     a watchdog or fencing ensures it: [Settings.OutOfServiceAfter]
//
// and only while few nodes of a pool are silent at once: when many are, the monitoring is more likely broken.
//
// [Decide] is a pure function of the nodes of a pool. The [Reconciler] gathers its input, performs the steps and records events.
package recovery
