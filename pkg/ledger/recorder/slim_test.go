package recorder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var (
	_ snapshot.ObjectReducer = (*podBook)(nil)
	_ snapshot.ObjectReducer = (*jobBook)(nil)
)

// large is what users may fill a pod with.
var large = strings.Repeat("x", 100<<10)

func fill(p *corev1.Pod) {
	p.Annotations["note"] = large
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: large}}
	p.Spec.Containers[0].Args = []string{large}
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: large}}}}
	p.Spec.Volumes = []corev1.Volume{{Name: large}}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "Note", Message: large})
	for i := range p.Status.ContainerStatuses {
		p.Status.ContainerStatuses[i].ImageID = large
		if ended := p.Status.ContainerStatuses[i].State.Terminated; ended != nil {
			ended.Message = large
		}
	}
}

// TestASlimPodTellsTheSame as all of it does, to the ledger and to what keeps output.
func TestASlimPodTellsTheSame(t *testing.T) {
	cards := func(p *corev1.Pod) {
		p.Annotations[names.AnnotationGPUDevices] = `{"main":[{"uuid":"GPU-1","index":1,"memoryMiB":2048}]}`
	}
	sidecar := func(p *corev1.Pod) {
		helper := *p.Spec.Containers[0].DeepCopy()
		helper.Name, helper.RestartPolicy = "helper", ptr.To(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, helper)
	}
	conditions := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(3))},
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(9))})
	}
	pool := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{names.LabelPool: "train"} }
	node := fixture.Node("n").GPUs(8, "A").Obj()
	for name, edits := range map[string][]func(*corev1.Pod){
		"a pod that runs":        {cards, conditions},
		"one with a sidecar":     {sidecar, pool},
		"one that has succeeded": {cards, succeeded(5)},
		"one that failed": {succeeded(5), func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0].State.Terminated.ExitCode = 7
		}},
		"one that was disrupted":    {conditions, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"one that is being deleted": {conditions, deleted},
		"one that asks for nothing": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("1", append([]func(*corev1.Pod){func(p *corev1.Pod) { p.Annotations = map[string]string{} }}, edits...)...)
			fill(p)
			slim, ok := (&podBook{}).ReduceObject(p.DeepCopy()).(*corev1.Pod)
			if !ok {
				t.Fatal("it is no pod")
			}
			for _, gone := range []bool{false, true} {
				seen := func(p *corev1.Pod) *ledger.Holding {
					return ledger.ObservePod(nil, ledger.Sighting{Pod: p, Gone: gone, Since: at(20), At: at(30)}, node)
				}
				if diff := cmp.Diff(seen(p), seen(slim)); diff != "" {
					t.Errorf("gone %t, holding (-of all +of what is kept):\n%s", gone, diff)
				}
			}
			if diff := cmp.Diff(trimPod(p), trimPod(slim)); diff != "" || hasStarted(p) != hasStarted(slim) {
				t.Errorf("what its output is read by (-of all +of what is kept):\n%s", diff)
			}
			if data, err := json.Marshal(slim); err != nil || len(data) > 4<<10 {
				t.Errorf("%d bytes are kept, %v", len(data), err)
			}
		})
	}
}

// TestASlimJobTellsTheSame as all of it does.
func TestASlimJobTellsTheSame(t *testing.T) {
	for name, edit := range map[string]func(*batchv1.Job){
		"one that runs": func(*batchv1.Job) {},
		"one that succeeds": func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(9))}}
		},
		"one that failed": func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "why", LastTransitionTime: metav1.NewTime(at(9))}}
		},
		"one that was cancelled": func(j *batchv1.Job) { j.Annotations[names.AnnotationCancelledAt] = "2026-11-01T12:00:09Z" },
		"one that is paused": func(j *batchv1.Job) {
			j.Spec.Suspend = ptr.To(true)
			j.Annotations[names.AnnotationPausedBecause] = "idle"
		},
		"one of some types": func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{names.AnnotationGPUTypes: "A100,H100", "note": large}
			j.Labels[names.LabelPool], j.Labels[names.LabelPriority] = "train", "g8s-high"
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := job("J", edit)
			j.Spec.Template.Spec = pod("1").Spec
			j.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: large}}
			j.Annotations[names.AnnotationSubmitted] = large
			slim := (&jobBook{}).ReduceObject(j.DeepCopy())
			want, _ := jobOf(j, followJobs)
			got, ok := jobOf(slim, followJobs)
			if diff := cmp.Diff(want, got); diff != "" || !ok {
				t.Errorf("job (-of all +of what is kept):\n%s", diff)
			}
			if data, err := json.Marshal(slim); err != nil || len(data) > 4<<10 {
				t.Errorf("%d bytes are kept, %v", len(data), err)
			}
		})
	}
}
