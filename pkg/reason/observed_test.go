package reason

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestCauseOfUnplaced(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   Cause
	}{
		"nobody has looked":             {func(*corev1.Pod) {}, WaitingForTurn},
		"a gate":                        {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, SchedulingGated},
		"others leave for it":           {func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }, Preempting},
		"another scheduler":             {func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" }, OtherScheduler},
		"what it asks cannot be read":   {func(p *corev1.Pod) { p.Annotations = map[string]string{names.AnnotationGPUMemoryMin: "lots"} }, MalformedRequest},
		"a claim":                       {rejectedWith(`persistentvolumeclaim "data" not found`), VolumeMissing},
		"a gang":                        {rejectedWith("gang: there is room for 1 of 3 members now, and all start at once"), GangWaiting},
		"a gang that is not whole":      {rejectedWith("cannot find enough sibling pods, current pods number: 2, minMember of group: 3"), GangIncomplete},
		"what only the scheduler knows": {rejectedWith("0/5 nodes are available: 1 node(s) had volume node affinity conflict, 4 Insufficient cpu."), VolumeElsewhere},
		"what time mends before what an administrator has to": {
			rejectedWith("0/5 nodes are available: 4 node(s) were unschedulable, 1 node(s) have too few free GPUs."), Busy,
		},
		"nodes of other pools are none that could take it": {
			rejectedWith("0/17 nodes are available: 15 node(s) are in another GPU pool, 2 node(s) have fewer GPUs than the pod asks for."), TooManyGPUs,
		},
		"what nobody has said":   {rejectedWith("something else"), RejectedByScheduler},
		"an answer that is none": {rejectedWith(""), Unknown},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("p").GPUs(1).Obj()
			pod.Spec.SchedulerName = names.SchedulerName
			tc.change(pod)
			if got := CauseOfUnplaced(pod); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func rejectedWith(verdict string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: verdict,
		}}
	}
}

func TestCauseOfContainer(t *testing.T) {
	crashed := func(why string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{Reason: why, ExitCode: 1}
	}
	tests := map[string]struct {
		word string
		last *corev1.ContainerStateTerminated
		want Cause
	}{
		"on its way":                 {"ContainerCreating", nil, ""},
		"an image":                   {"ImagePullBackOff", nil, ImagePull},
		"a secret":                   {"CreateContainerConfigError", nil, ContainerConfig},
		"a program":                  {"RunContainerError", nil, ContainerStart},
		"a word of another runtime":  {"HookFailed", nil, ContainerStart},
		"a loop":                     {"CrashLoopBackOff", crashed("Error"), Crashing},
		"a loop, and nothing else":   {"CrashLoopBackOff", nil, Crashing},
		"a loop for want of memory":  {"CrashLoopBackOff", crashed("OOMKilled"), OutOfMemory},
		"a loop without one program": {"CrashLoopBackOff", crashed("StartError"), ContainerStart},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{Terminated: tc.last}}
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: tc.word}
			if got := CauseOfContainer(&status); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := CauseOfContainer(&corev1.ContainerStatus{}); got != "" {
		t.Errorf("a container that runs has cause %s", got)
	}
}
