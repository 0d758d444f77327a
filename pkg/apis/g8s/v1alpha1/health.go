package v1alpha1

// What the controller writes on Jobs and nodes.
const (
	// AnnotationIndexFailures is, on a Job with a retry limit for each index, how often each member had failed when the
	// controller let a disrupted pod of it go: JSON, failures by index. The Job controller counts them on the pod that is
	// replaced, and does not see that one any more.
	AnnotationIndexFailures = "g8s.host/index-failures"
)
