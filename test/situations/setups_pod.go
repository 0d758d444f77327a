package situations

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// podSetups are about what a pod of the job refers to, and what only the scheduler knows.
var podSetups = map[string]func(*World){
	"claim missing": func(w *World) {
		w.mountClaim("data")
		w.sayVerdict("claim", reason.ClaimMissing.Text.FormatText("data"))
	},
	"claim without a volume": func(w *World) {
		w.mountClaim("data")
		w.space.Claims = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: namespace}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		}}
		w.sayVerdict("claim", "pod has unbound immediate PersistentVolumeClaims")
	},
	"gated": func(w *World) {
		w.sayVerdict("claim", "Scheduling is blocked due to non-empty scheduling gates")
		w.phases = append(w.phases, func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
			pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		})
	},
	"another scheduler":                func(w *World) { w.template.Spec.SchedulerName = "volcano" },
	"profile that no scheduler serves": func(w *World) { w.template.Spec.SchedulerName = names.SchedulerPluginsName },
	"malformed request":                func(w *World) { w.template.Annotations = map[string]string{names.AnnotationGPUMemoryMin: "lots"} },
	"pods that it wants near": func(w *World) {
		w.sayVerdict("node", oneNode+"node(s) didn't match pod affinity rules.")
	},
	"pods that it wants far": func(w *World) {
		w.sayVerdict("node", oneNode+"node(s) didn't match pod anti-affinity rules.")
	},
	"spread unevenly": func(w *World) { w.sayVerdict("node", oneNode+string(reason.SpreadTooUnevenly.Text)+".") },
	"port taken": func(w *World) {
		w.sayVerdict("node", oneNode+"node(s) didn't have free ports for the requested pod ports.")
	},
	"volumes of the node used up": func(w *World) { w.sayVerdict("node", oneNode+"node(s) exceed max volume count.") },
	"volume elsewhere": func(w *World) {
		w.mountClaim("data")
		w.space.Claims = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: namespace}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}}
		w.space.Volumes = []corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n9"}}},
			}}}},
		}}}
		w.sayVerdict("claim", oneNode+"node(s) didn't match PersistentVolume's node affinity.")
	},
	"node kept whole":      func(w *World) { w.sayVerdict("node", oneNode+string(reason.KeptForWhole.Text)+".") },
	"room promised":        func(w *World) { w.sayVerdict("node", oneNode+string(reason.KeptForFirst.Text)+".") },
	"type not served":      func(w *World) { w.sayVerdict("node", oneNode+string(reason.NotServed.Text)+".") },
	"scheduler says other": func(w *World) { w.sayVerdict("node", "0/1 nodes are available: 1 node(s) dislike it.") },
}

// mountClaim has each pod of the job mount a claim.
func (w *World) mountClaim(name string) {
	w.template.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
}

// refusalSetups have the API server refuse the job's pods.
var refusalSetups = map[string]func(*World){
	"quota used up": func(w *World) {
		w.unmade = true
		w.space.Quotas = []corev1.ResourceQuota{{
			ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: quotaOfGPUs("32")},
			Status: corev1.ResourceQuotaStatus{Hard: quotaOfGPUs("32"), Used: quotaOfGPUs("30")},
		}}
	},
	"quota that wants limits": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: failed quota: team: must specify limits.memory for: main`)
		w.space.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Ti")},
		}}}
	},
	"limit range": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: maximum cpu usage per Container is 2, but limit is 4`)
		w.space.LimitRanges = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "bounds"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}}}}}
	},
	"silent webhook": func(w *World) {
		w.refusePods(`Error creating: Internal error occurred: failed calling webhook "pods.example.com": connection refused`)
	},
	"webhook that denies": func(w *World) {
		w.refusePods(`Error creating: admission webhook "pods.example.com" denied the request: no team label`)
	},
	"policy that denies": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: image is not signed`)
	},
	"pod security": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "data")`)
		w.space.Namespaces = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}}
	},
	"no service account": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: error looking up service account team/robot: serviceaccount "robot" not found`)
	},
	"class that nobody installed": func(w *World) {
		w.template.Spec.PriorityClassName = "urgent"
		w.refusePods(`Error creating: pods "train-x" is forbidden: no PriorityClass with name urgent was found`)
	},
	"namespace that ends": func(w *World) {
		w.refusePods(`Error creating: pods "train-x" is forbidden: unable to create new content in namespace team because it is being terminated`)
		w.space.Namespaces = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: namespace, DeletionTimestamp: &metav1.Time{Time: Noon.Add(-time.Minute)}}}}
	},
}

func quotaOfGPUs(count string) corev1.ResourceList {
	return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(count)}
}
