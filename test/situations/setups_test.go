package situations

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/test/fixture"
)

// setups are what testdata names: each adds one cause to a world.
var setups = map[string]func(*world){
	"paused": func(w *world) {
		w.unmade, w.job.Status = true, inventory.StatusSuspended
		w.job.Trouble = inventory.Trouble{Reason: "Suspended", Message: "the job is paused and holds no GPUs"}
	},
	"waits for a job": func(w *world) {
		w.unmade, w.job.WaitsFor, w.job.After = true, []string{"prep"}, "ok"
		w.others = []inventory.Job{{Name: "prep", Namespace: "team", Kind: "training", Status: inventory.StatusRunning, Object: inventory.ObjectRef{Kind: "Job"}}}
		if w.job.Status != inventory.StatusSuspended {
			w.job.Trouble = inventory.Trouble{Reason: inventory.ReasonWaitsForJobs, Message: "it starts when prep has succeeded"}
		}
	},
	"quota used up": func(w *world) {
		w.unmade = true
		w.space.Quotas = []corev1.ResourceQuota{{
			ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: gpus("32")},
			Status: corev1.ResourceQuotaStatus{Hard: gpus("32"), Used: gpus("30")},
		}}
	},
	"limit range": func(w *world) {
		w.unmade = true
		w.space.LimitRanges = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "bounds"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}}}}}
	},
	"dead controllers": func(w *world) { w.unmade, w.job.ControllerObserved = true, false },
	"silent webhook": func(w *world) {
		w.unmade = true
		w.job.Refusal = `failed calling webhook "pods.example.com": connection refused`
	},
	"claim missing": func(w *world) {
		w.template.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	},
	"pool misspelt": func(w *world) { w.template.Spec.NodeSelector[names.LabelPool] = "trian-pool" },
	"type misspelt": func(w *world) { w.template.Spec.NodeSelector[names.LabelGPUType] = "A100-80g" },
	"sixteen GPUs":  func(w *world) { w.ask("16") },
	"nodes full":    func(w *world) { w.holders = append(w.holders, w.on("n1", names.PriorityClassMedium, 8)) },
	"nodes half full of medium": func(w *world) {
		w.ask("8")
		high := w.on("n1", names.PriorityClassHigh, 4)
		high.Name = "high-n1"
		w.holders = append(w.holders, w.on("n1", names.PriorityClassMedium, 4), high)
	},
	"priority low":  func(w *world) { w.template.Spec.PriorityClassName = names.PriorityClassLow },
	"unknown class": func(w *world) { w.template.Spec.PriorityClassName = "urgent" },
	"pool closed": func(w *world) {
		w.pools = []names.GPUPool{{ObjectMeta: metav1.ObjectMeta{Name: "train-pool"}, Spec: names.GPUPoolSpec{Access: names.PoolAccess{Namespaces: []string{"research"}}}}}
	},
	"pool takes low": func(w *world) {
		w.pools = []names.GPUPool{{ObjectMeta: metav1.ObjectMeta{Name: "train-pool"}, Spec: names.GPUPoolSpec{Access: names.PoolAccess{Priorities: []names.PoolPriority{"low"}}}}}
	},
	"share noted":               func(w *world) { w.template.Annotations = map[string]string{names.AnnotationGPUShare: "30Gi"} },
	"replicas that cannot pull": func(w *world) { w.replicas(true) },
	"replicas that run":         func(w *world) { w.replicas(false) },
	"gang of two racks":         func(w *world) { w.gang(2, 8, "r2") },
	"gang of high priority":     func(w *world) { w.gang(2, 8, "r1"); w.highGang() },
	"gang of three that makes two": func(w *world) {
		w.gang(2, 4, "r1")
		w.verdict = "cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
	},
	"disruption budget": func(w *world) {
		w.space.Budgets = []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "keep", Namespace: "other"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}},
		}}
	},
	"drained": func(w *world) {
		w.nodes[0].Spec.Unschedulable = true
		w.job.Past = []inventory.Event{{Reason: "Scheduled", Object: "Pod/train-old", Message: "Successfully assigned team/train-old to n1", Last: noon.Add(-time.Hour)}}
	},
	"failed of memory": func(w *world) {
		w.unmade, w.job.Status = true, inventory.StatusFailed
		w.job.Trouble = inventory.Trouble{Reason: "OOMKilled", Message: "container main was OOMKilled"}
		w.job.Container.Requests = map[string]string{"memory": "4Gi"}
	},
	"failed of time": func(w *world) {
		w.unmade, w.job.Status, w.job.TimeLimit = true, inventory.StatusFailed, 4*time.Hour
		w.job.Trouble = inventory.Trouble{Reason: batchv1.JobReasonDeadlineExceeded}
	},
}

func gpus(count string) corev1.ResourceList {
	return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(count)}
}

// ask has each pod of the job ask for a number of GPUs.
func (w *world) ask(count string) {
	resources := &w.template.Spec.Containers[0].Resources
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if _, ok := list[names.ResourceGPU]; ok {
			list[names.ResourceGPU] = resource.MustParse(count)
		}
	}
}

// replicas makes the job a service of three replicas, two of which hold all GPUs.
func (w *world) replicas(cannotPull bool) {
	w.job.Kind, w.job.Desired, w.job.Object.Kind = "inference", 3, "Deployment"
	w.job.Status = inventory.StatusFailing
	for i := range 2 {
		pod := w.waiting(10 + i)
		pod.Spec.NodeName, pod.Status.Conditions = "n1", nil
		if cannotPull {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "typo", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
			}}}
		} else {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			w.job.Status = inventory.StatusDegraded
		}
		w.placed = append(w.placed, pod)
	}
}

// gang makes the job one of several nodes in one rack, beside a second node in a rack.
func (w *world) gang(members int, count int64, rack string) {
	w.members, w.job.Desired = members, int32(members)
	w.template.Labels = map[string]string{names.LabelPodGroup: "train"}
	w.space.PodGroups = []string{"train"}
	w.ask(resource.NewQuantity(count, resource.DecimalSI).String())
	w.nodes = append(w.nodes, *fixture.Node("n2").Pool("train-pool").GPUs(8, "A100-80G").Label(names.LabelRack, rack).Obj())
	w.job.Submitted = "kind: training\njob: {name: train}\nenvironment: {image: i, command: [c]}\n" +
		"resources: {pool: train-pool, nodes: 2, gpu: 8, cpu: 4, memory: 1Gi, topology: {level: rack, mode: required}}\n"
}

// highGang fills one node with pods of lower priority, for which the gang is of high priority.
func (w *world) highGang() {
	w.template.Spec.PriorityClassName = names.PriorityClassHigh
	w.holders = append(w.holders, w.on("n2", names.PriorityClassLow, 8))
	w.verdict = "0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once."
}
