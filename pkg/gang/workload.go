package gang

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Kinds of workloads that are not gangs themselves: their pods start one by one, or are those of a gang of another kind.
const (
	KindPod         = "Pod"
	KindDeployment  = "Deployment"
	KindStatefulSet = "StatefulSet"
	KindTrainJob    = "TrainJob"
	KindRayJob      = "RayJob"
	KindRayService  = "RayService"
	KindSpark       = "SparkApplication"
)

// Labels that operators set on pods several owners below a workload, with its name, or a sign that it is there.
const (
	labelRayOriginKind = "ray.io/originated-from-crd"
	labelRayOrigin     = "ray.io/originated-from-cr-name"
	labelTrainStep     = "trainer.kubeflow.org/trainjob-ancestor-step"
	labelSpark         = "sparkoperator.k8s.io/app-name"
)

// Workload names what a user created, and what a pod runs for: a job of gpuctl, or the root of the pod's owners.
type Workload struct {
	// Kind is training, inference, notebook or compute for a job of gpuctl, else the kind of an object, such as RayCluster.
	Kind string
	Name string
}

// IsPodAlone reports whether the workload is nothing but a pod.
func (w Workload) IsPodAlone() bool { return w.Kind == KindPod }

// JobName returns the name of the workload, and "" for a pod alone, which belongs to no job.
func (w Workload) JobName() string {
	if w.IsPodAlone() {
		return ""
	}
	return w.Name
}

// JobKind returns the kind of the workload, and "" for a pod alone.
func (w Workload) JobKind() string {
	if w.IsPodAlone() {
		return ""
	}
	return w.Kind
}

// WorkloadOf returns the workload of a pod, judged by the pod alone. A job of gpuctl has its labels, and an operator's workload those that the
// operator sets; any other is the pod's controller, or the pod itself.
func WorkloadOf(pod *corev1.Pod) Workload {
	if job := pod.Labels[names.LabelJob]; job != "" {
		return Workload{Kind: pod.Labels[names.LabelJobType], Name: job}
	}
	if w := rootByLabels(pod); w.Name != "" {
		return w
	}
	if m, recognized := recognizeByOwner(pod); recognized {
		return Workload{Kind: m.Kind, Name: m.Object}
	}
	if w := workloadOfController(pod); w.Name != "" {
		return w
	}
	if group, named := NamedGroup(pod); named {
		return Workload{Kind: KindPodGroup, Name: group.Name}
	}
	if m, recognized := Recognize(pod); recognized { // by the field of Kubernetes
		return Workload{Kind: m.Kind, Name: m.Object}
	}
	return Workload{Kind: KindPod, Name: pod.Name}
}

// IsMadeByGpuctl reports whether the workload of a pod is a job of gpuctl.
func IsMadeByGpuctl(pod *corev1.Pod) bool { return pod.Labels[names.LabelJob] != "" }

// rootByLabels returns the workload that operators name on pods several owners below it: KubeRay 1.6, Kubeflow Trainer 2 and Spark's operator. It
// returns the zero value for a pod whose controller is of no kind that they make for it, as anybody can write labels.
func rootByLabels(pod *corev1.Pod) Workload {
	owner, labels := metav1.GetControllerOfNoCopy(pod), pod.Labels
	if owner == nil {
		return Workload{}
	}
	rayKind := labels[labelRayOriginKind]
	switch {
	case slices.Contains([]string{KindRayCluster, KindRayJob, KindRayService}, rayKind) && (owner.Kind == KindRayCluster || owner.Kind == KindJob):
		return Workload{Kind: rayKind, Name: labels[labelRayOrigin]}
	case labels[labelTrainStep] != "" && isMadeFor(pod, labels[labelJobSet]): // its JobSet has its name
		return Workload{Kind: KindTrainJob, Name: labels[labelJobSet]}
	case owner.Kind == KindSpark || owner.Kind == KindPod: // the executors are the driver's
		return Workload{Kind: KindSpark, Name: labels[labelSpark]}
	}
	return Workload{}
}

// workloadOfController returns the controller of a pod, for a ReplicaSet the Deployment that made it, and the zero value for a pod that is not
// made from a template.
func workloadOfController(pod *corev1.Pod) Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind == "Node" {
		return Workload{}
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return Workload{Kind: KindDeployment, Name: deployment}
		}
	}
	return Workload{Kind: owner.Kind, Name: owner.Name}
}

// OwnerLabels are the labels that [WorkloadOf] reads, for callers that keep parts of pods alone.
func OwnerLabels() []string {
	return []string{
		names.LabelJob, names.LabelJobType, names.LabelPodGroup, labelLeaderWorkerSet, labelReplica, labelJobSet, labelReplicatedJob, labelRayCluster,
		labelRayNode, labelTrainingJob, labelTrainingOperator, labelRayOriginKind, labelRayOrigin, labelTrainStep, labelSpark, appsv1.DefaultDeploymentUniqueLabelKey,
	}
}

// ReplicaOf returns the replica of a workload whose replicas are a gang each, and "" for a pod of any other.
func ReplicaOf(pod *corev1.Pod) string { return inLeaderWorkerSet(pod).Part }

// WorkloadKinds returns the kinds of workloads that are known by name, those of gpuctl aside.
func WorkloadKinds() []string {
	return []string{
		KindJob, KindJobSet, KindLeaderWorkerSet, KindMPIJob, "PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", KindTrainJob,
		KindRayCluster, KindRayJob, KindRayService, KindSpark, KindDeployment, KindStatefulSet, KindPodGroup, KindPod,
	}
}

// JobStartsTogether reports whether all pods of a Job of Kubernetes start together: by a PodGroup that its template names, or as the indexes of a
// Job that gpuctl did not make, whose arrays run one by one.
func JobStartsTogether(job *batchv1.Job) bool {
	template := &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta}
	if _, named := NamedGroup(template); named {
		return true
	}
	if IsMadeByGpuctl(template) {
		return false
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&batchv1.Job{ObjectMeta: job.ObjectMeta, Spec: job.Spec})
	return err == nil && jobKind.Read(&unstructured.Unstructured{Object: object}).Whole > 0
}
