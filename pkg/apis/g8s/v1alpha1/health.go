package v1alpha1

// What the controller writes on Jobs and nodes.
const (
	// AnnotationIndexFailures is, on a Job with a retry limit for each index, how often each member had failed when the
	// controller let a disrupted pod of it go: JSON, failures by index. The Job controller counts them on the pod that is
	// replaced, and does not see that one any more.
	AnnotationIndexFailures = "g8s.host/index-failures"
	// AnnotationNoMigration, on a pod, with the value [True], keeps it where it is until a person decides.
	AnnotationNoMigration = "g8s.host/no-migration"
)

// How the controller marks nodes that fail.
const (
	// TaintSuspect, with the effect NoSchedule, keeps new pods from a node that failed, until it has been well for a while.
	// Its value says what failed.
	TaintSuspect = "g8s.host/suspect"
	// SuspectNotReady is the value of TaintSuspect on a node whose kubelet fell silent or reported that it cannot work.
	SuspectNotReady = "not-ready"
	// SuspectCondition is its value on a node with a condition that must not be true.
	SuspectCondition = "condition"
	// OutOfServiceByController is the value of Kubernetes' taint node.kubernetes.io/out-of-service where the controller has
	// set it. Others are left to who has set them.
	OutOfServiceByController = "g8s.host"
	// AnnotationHealth is, on a node, what the controller remembers of its failures: JSON, see pkg/controller/recovery.
	AnnotationHealth = "g8s.host/health"
)
