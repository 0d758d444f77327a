package gang

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// The kinds of objects whose pods start together.
const (
	KindPodGroup        = "PodGroup" // of scheduling.k8s.io, Kubernetes' own
	KindLeaderWorkerSet = "LeaderWorkerSet"
	KindJobSet          = "JobSet"
	KindRayCluster      = "RayCluster"
	KindJob             = "Job"
	KindMPIJob          = "MPIJob"
)

// Labels of the pods of an object, with its name as the value.
const (
	labelLeaderWorkerSet = "leaderworkerset.sigs.k8s.io/name"
	labelJobSet          = "jobset.sigs.k8s.io/jobset-name"
	labelRayCluster      = "ray.io/cluster"
	labelTrainingJob     = "training.kubeflow.org/job-name"
)

// Other labels of their pods.
const (
	labelReplica          = "leaderworkerset.sigs.k8s.io/group-index"
	labelReplicatedJob    = "jobset.sigs.k8s.io/replicatedjob-name"
	labelRayNode          = "ray.io/node-type"
	labelTrainingOperator = "training.kubeflow.org/operator-name"
)

// labelOf returns the label of the pods of a kind, "" for none.
func labelOf(kind string) string {
	switch kind {
	case KindPodGroup:
		return ""
	case KindLeaderWorkerSet:
		return labelLeaderWorkerSet
	case KindJobSet:
		return labelJobSet
	case KindRayCluster:
		return labelRayCluster
	case KindJob:
		return batchv1.JobNameLabel
	}
	return labelTrainingJob
}

// recognizers read what operators write on their pods, in order of precedence: the pods of a JobSet also belong to its Jobs.
var recognizers = []func(*corev1.Pod) Membership{inLeaderWorkerSet, inJobSet, inRayCluster, inTrainingJob, inJob}

// inLeaderWorkerSet reads the labels of LWS 0.8 (api/leaderworkerset/v1). Each replica starts separately.
func inLeaderWorkerSet(pod *corev1.Pod) Membership {
	replica := pod.Labels[labelReplica]
	if replica == "" {
		return Membership{}
	}
	return Membership{Kind: KindLeaderWorkerSet, Object: pod.Labels[labelLeaderWorkerSet], Part: replica}
}

// inJobSet reads the labels of JobSet 0.11 (api/jobset/v1alpha2), which are also on the pods of a TrainJob of Kubeflow Trainer 2.
func inJobSet(pod *corev1.Pod) Membership {
	return Membership{Kind: KindJobSet, Object: pod.Labels[labelJobSet], Part: pod.Labels[labelReplicatedJob]}
}

// inRayCluster reads the labels of KubeRay 1.6. A RayJob and a RayService each have a RayCluster for their nodes; pods that clean up after one,
// or submit a job to it, are not its nodes.
func inRayCluster(pod *corev1.Pod) Membership {
	switch pod.Labels[labelRayNode] {
	case "head", "worker":
		return Membership{Kind: KindRayCluster, Object: pod.Labels[labelRayCluster]}
	}
	return Membership{}
}

// trainingKinds are the kinds of Kubeflow's jobs by the operators that their pods name: training-operator 1.9 and mpi-operator 0.6.
var trainingKinds = map[string]string{
	"pytorchjob-controller": "PyTorchJob", "tfjob-controller": "TFJob", "xgboostjob-controller": "XGBoostJob", "jaxjob-controller": "JAXJob",
	"paddlejob-controller": "PaddleJob", "mpijob-controller": KindMPIJob, "mpi-operator": KindMPIJob,
}

// inTrainingJob reads the labels of Kubeflow's operators.
func inTrainingJob(pod *corev1.Pod) Membership {
	kind := trainingKinds[pod.Labels[labelTrainingOperator]]
	if kind == "" {
		return Membership{}
	}
	return Membership{Kind: kind, Object: pod.Labels[labelTrainingJob]}
}

// inJob reads the controller of a pod. The tasks of a gpuctl array run independently.
func inJob(pod *corev1.Pod) Membership {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != KindJob || owner.APIVersion != batchv1.SchemeGroupVersion.String() ||
		pod.Labels[names.LabelJob] != "" || pod.Annotations[batchv1.JobCompletionIndexAnnotation] == "" {
		return Membership{}
	}
	return Membership{Kind: KindJob, Object: owner.Name}
}
