package why

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

const a100, t4 = "A100-80G", "T4-16G"

// situation is one reason that a job does not run.
type situation struct {
	// script brings it about, and returns when the cluster has noticed.
	script func(*env)
	cause  reason.Cause
	// says are parts of the answer: the numbers, and what to change.
	says []string
}

// waits submits a pod and waits for the scheduler's verdict.
func (e *env) waits(pod *corev1.Pod) {
	e.Helper()
	e.submit(pod)
	e.judged()
}

// TestReasons scripts every reason through the real scheduler and the real API server.
func TestReasons(t *testing.T) {
	groups := map[string]map[string]situation{
		"the wrong kind of node": wrongKind, "no room on nodes": noRoom, "closed nodes": closedNodes,
		"requests that cannot be read": malformed, "what only the scheduler knows": schedulerOnly,
		"not the scheduler's doing": elsewhere,
	}
	count := 0
	for group, reasons := range groups {
		count += len(reasons)
		for name, tc := range reasons {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				tc.script(e)
				e.want(tc.cause, tc.says...)
			})
		}
	}
	if count < 30 {
		t.Errorf("%d reasons are scripted, want 30", count)
	}
}

var wrongKind = map[string]situation{
	"no such pool": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(fixture.Pod("p").GPUs(1).Pool(e.pool + "x").Obj())
		},
		cause: reason.NoSuchPool, says: []string{"no node is in pool", "did you mean pool", "gpuctl move job"},
	},
	"no node without a pool label": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(fixture.Pod("p").GPUs(1).Obj())
		},
		cause: reason.NoSuchPool, says: []string{"pool default", "name a pool that has nodes"},
	},
	"no such type": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(e.pod(1).Annotate(names.AnnotationGPUTypes, "H900-7G").Obj())
		},
		cause: reason.NoSuchType, says: []string{"H900-7G", "ask for a type that", a100},
	},
	"the type is in another pool": {
		script: func(e *env) {
			own := "L40S-" + e.namespace
			e.createNodes(e.node("n").GPUs(8, a100).Obj(), e.node("m").Pool(e.pool+"-other").GPUs(4, own).Obj())
			e.waits(e.pod(1).Type(own).Obj())
		},
		cause: reason.TypeInOtherPool, says: []string{"-other (4 of 4 such GPUs free)", "use a pool that has it"},
	},
	"the type in lower case": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(e.pod(1).Type("a100-80g").Obj())
		},
		cause: reason.TypeMisspelt, says: []string{"did you mean " + a100},
	},
	"the type with a wrong digit": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, "A100-100G").Obj())
			e.waits(e.pod(1).Annotate(names.AnnotationGPUTypes, "A100-800G").Obj())
		},
		cause: reason.TypeMisspelt, says: []string{"did you mean A100-100G"},
	},
	"a node selector that no node meets": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(e.pod(1).Select("disk", "nvme").Obj())
		},
		cause: reason.NodeSelector, says: []string{"without the labels", "correct the selector"},
	},
}

var malformed = map[string]situation{
	"the list of types": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(e.pod(1).Annotate(names.AnnotationGPUTypes, "A100-80G,,").Obj())
		},
		cause: reason.MalformedRequest, says: []string{names.AnnotationGPUTypes, "submit it again"},
	},
	"the share of a GPU": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(0).Annotate(names.AnnotationGPUShare, "two").Obj()
			setRequest(pod, names.ResourceSharedGPU, "1")
			e.waits(pod)
		},
		cause: reason.MalformedRequest, says: []string{names.AnnotationGPUShare, "two"},
	},
	"a sum beyond all counts": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(e.pod(1<<63-1).Container("second", 1<<63-1).Obj())
		},
		cause: reason.MalformedRequest, says: []string{"submit it again"},
	},
}

var schedulerOnly = map[string]situation{
	"pod affinity to a pod that is not there": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: near("app", "database")}}
			e.waits(pod)
		},
		cause: reason.PodAffinity, says: []string{"must run near pods"},
	},
	"anti-affinity to a pod on the only node": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.hold("n", 1)
			pod := e.pod(1).Obj()
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: near(names.LabelJob, "holder")}}
			e.waits(pod)
		},
		cause: reason.PodAntiAffinity, says: []string{"must not share a node"},
	},
	"the anti-affinity of a pod of another namespace": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			keeper := fixture.Pod("keeper-" + e.namespace).Obj()
			keeper.Spec.NodeName = e.namespace + "-n"
			keeper.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, Namespaces: []string{e.namespace},
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelJob: "job"}},
				}},
			}}
			if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(e.Context(), keeper, metav1.CreateOptions{}); err != nil {
				e.Fatal(err)
			}
			e.Cleanup(func() {
				_ = client.CoreV1().Pods(metav1.NamespaceDefault).Delete(context.Background(), keeper.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
			})
			e.waits(e.pod(1).Obj())
		},
		cause: reason.AntiAffinityOfOthers, says: []string{"pod default/keeper-", "ask the owner of namespace default", "Nothing of this job has to change"},
	},
	"topology spread": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelJob: "job"}},
			}}
			e.waits(pod)
		},
		cause: reason.TopologySpread, says: []string{"ScheduleAnyway"},
	},
	"a port of the node that is taken": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			other := e.pod(1).Obj()
			other.Name = "other"
			other.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			other.Spec.NodeName = e.namespace + "-n"
			if _, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), other, metav1.CreateOptions{}); err != nil {
				e.Fatal(err)
			}
			pod := e.pod(1).Obj()
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			e.exempt(pod)
			e.waits(pod)
		},
		cause: reason.HostPort, says: []string{"another hostPort"},
	},
	"a claim that does not exist": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.waits(withClaim(e.pod(1).Obj(), "data"))
		},
		cause: reason.VolumeMissing, says: []string{"no PersistentVolumeClaim data", "create the claim data"},
	},
	"a claim without a volume": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To(""),
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}
			if _, err := client.CoreV1().PersistentVolumeClaims(e.namespace).Create(e.Context(), claim, metav1.CreateOptions{}); err != nil {
				e.Fatal(err)
			}
			e.waits(withClaim(e.pod(1).Obj(), "data"))
		},
		cause: reason.VolumeUnbound, says: []string{"not bound", "kubectl describe pvc"},
	},
}

var elsewhere = map[string]situation{
	"cards that the job gave itself": {
		script: func(e *env) {
			e.submit(e.pod(1).Annotate(names.AnnotationGPUDevices, `{"version":1,"containers":{"main":[{"uuid":"GPU-0","index":0}]}}`).Obj())
			e.refused()
		},
		cause: reason.RefusedByPolicy, says: []string{"only the scheduler may set", "submit it again"},
	},
	"a scheduling gate": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			pod := e.pod(1).Obj()
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
			e.submit(pod)
			e.exists()
		},
		cause: reason.SchedulingGated, says: []string{"example.com/queue"},
	},
	"another scheduler": {
		script: func(e *env) {
			pod := e.pod(1).Obj()
			pod.Spec.SchedulerName = "volcano"
			e.exempt(pod)
			e.submit(pod)
			e.exists()
		},
		cause: reason.OtherScheduler, says: []string{"volcano", "schedulerName: gpu-scheduler"},
	},
	"a quota of GPUs": {
		script: func(e *env) {
			e.quota(corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("2")})
			e.submit(e.pod(4).Obj())
			e.refused()
		},
		cause: reason.QuotaExceeded, says: []string{"a pod asks for 4 GPUs (requests.nvidia.com/gpu)", "0 of 2 are in use", "higher quota"},
	},
	"a priority class that does not exist": {
		script: func(e *env) {
			pod := e.pod(1).Obj()
			pod.Spec.PriorityClassName = "urgent"
			e.submit(pod)
			e.refused()
		},
		cause: reason.NoSuchPriorityClass, says: []string{"no PriorityClass urgent", "priority high, medium or low"},
	},
	"a service account that does not exist": {
		script: func(e *env) {
			pod := e.pod(1).Obj()
			pod.Spec.ServiceAccountName = "robot"
			e.submit(pod)
			e.refused()
		},
		cause: reason.NoSuchServiceAccount, says: []string{"no service account robot"},
	},
	"a paused job": {
		script: func(e *env) {
			e.create(e.pod(1).Obj(), func(spec *batchv1.JobSpec) { spec.Suspend = ptr.To(true) })
		},
		cause: reason.Suspended, says: []string{"resume it: gpuctl resume job"},
	},
	"an image that cannot be pulled": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.submit(e.pod(1).Obj())
			e.status(e.bound(), corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Image: "example.com/image",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "manifest unknown"}},
			}}})
		},
		cause: reason.ImagePull, says: []string{"example.com/image cannot be pulled", "manifest unknown", "environment.image"},
	},
	"a job that failed": {
		script: func(e *env) {
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.submit(e.pod(1).Obj())
			e.status(e.bound(), corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Image: "example.com/image",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			}}})
			e.eventually("the job to have failed", func(ctx context.Context) bool {
				job, err := client.BatchV1().Jobs(e.namespace).Get(ctx, "job", metav1.GetOptions{})
				return err == nil && job.Status.Failed > 0 && len(job.Status.Conditions) > 1
			})
		},
		cause: reason.Failed, says: []string{"OOMKilled", "memory", "gpuctl logs job"},
	},
}

func near(key, value string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
	}}
}

func withClaim(pod *corev1.Pod, claim string) *corev1.Pod {
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return pod
}

// quota limits the namespace, and waits until the limit is in force.
func (e *env) quota(hard corev1.ResourceList) {
	e.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if _, err := client.CoreV1().ResourceQuotas(e.namespace).Create(e.Context(), quota, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.eventually("the quota to be in force", func(ctx context.Context) bool {
		got, err := client.CoreV1().ResourceQuotas(e.namespace).Get(ctx, "team", metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) == len(hard)
	})
}
