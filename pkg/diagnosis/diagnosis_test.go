package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// refused is a pod that the scheduler could not place.
func refused(pod *fixture.PodBuilder, verdict string) corev1.Pod {
	out := pod.Obj()
	out.Namespace = "team"
	out.Labels[names.LabelJob] = "train"
	out.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: verdict,
	}}
	return *out
}

func on(node string, gpus int64, job string) corev1.Pod {
	pod := fixture.Pod(job+"-"+node).GPUs(gpus).Label(names.LabelJob, job).Obj()
	pod.Namespace, pod.Spec.NodeName = "team", node
	return *pod
}

// factsOf is a waiting job of one pod in a cluster of these nodes.
func factsOf(pod corev1.Pod, nodes ...*fixture.NodeBuilder) Facts {
	facts := Facts{Cluster: snapshot.Snapshot{Now: noon}, Pods: []corev1.Pod{pod}, Job: inventory.JobDetail{Job: inventory.Job{
		Name: "train", Namespace: "team", Kind: "training", Status: inventory.StatusPending,
	}}}
	for _, node := range nodes {
		facts.Cluster.Nodes = append(facts.Cluster.Nodes, *node.Obj())
	}
	return facts
}

func (f Facts) with(change func(*Facts)) Facts {
	change(&f)
	return f
}

func node(name, pool string, gpus int) *fixture.NodeBuilder {
	return fixture.Node(name).Pool(pool).GPUs(gpus, "A100-80G")
}

const busy = "0/3 nodes are available: 3 node(s) have too few free GPUs. preemption: 0/3 nodes are available: 3 No victims."

// TestOrder is about which of several causes comes first; test/integration/why has each cause alone.
func TestOrder(t *testing.T) {
	cordoned := node("n2", "p", 8).Obj()
	cordoned.Spec.Unschedulable = true
	tests := map[string]struct {
		facts Facts
		want  []reason.Cause
	}{
		"what time heals comes before what an administrator must undo": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) {
				f.Cluster.Nodes = append(f.Cluster.Nodes, *cordoned)
				f.Cluster.Pods = []corev1.Pod{on("n1", 1, "other")}
			}),
			want: []reason.Cause{reason.Busy, reason.Cordoned},
		},
		"a node that two things stand against is further away": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 4)).with(func(f *Facts) {
				f.Cluster.Nodes = append(f.Cluster.Nodes, *cordoned)
				f.Cluster.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
				f.Cluster.Pods = []corev1.Pod{on("n2", 1, "other")}
			}),
			want: []reason.Cause{reason.TooManyGPUs, reason.Busy, reason.Cordoned},
		},
		"nodes of other pools say nothing, however free": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8), node("n2", "q", 8)).with(func(f *Facts) {
				f.Cluster.Pods = []corev1.Pod{on("n1", 6, "other")}
			}),
			want: []reason.Cause{reason.Busy},
		},
		"what only the scheduler knows, when the nodes have room": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"),
				"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."), node("n1", "p", 8)),
			want: []reason.Cause{reason.PodAntiAffinity},
		},
		"an idle node that is kept for others is nearer than those that are full": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(1).Pool("p"), "0/2 nodes are available: 1 node(s) are kept whole for pods "+
				"that take a whole node, 1 node(s) have too few free GPUs."), node("n1", "p", 8), node("n2", "p", 8)).with(func(f *Facts) {
				f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
			}),
			want: []reason.Cause{reason.KeptWhole, reason.Busy},
		},
		"a reason that nobody here knows is told as it is": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), "0/1 nodes are available: 1 moon not full."), node("n1", "p", 8)),
			want:  []reason.Cause{reason.RejectedByScheduler},
		},
		"room came free after the scheduler looked": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8)),
			want:  []reason.Cause{reason.RoomNow},
		},
		"without the right to read nodes the verdict speaks": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy)).with(func(f *Facts) { f.Cluster.Unread = []snapshot.Part{snapshot.PartNodes} }),
			want:  []reason.Cause{reason.Busy},
		},
		"cards that the author chose": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(1).Pool("p").Annotate(names.AnnotationGPUDevices, "{}"),
				"0/1 nodes are available: annotation g8s.host/gpu-devices is the scheduler's to write."), node("n1", "p", 8)),
			want: []reason.Cause{reason.MalformedRequest},
		},
		"an empty cluster": {facts: factsOf(refused(fixture.Pod("p").GPUs(1).Pool("p"), "no nodes available to schedule pods")), want: []reason.Cause{reason.NoSuchPool}},
		"a device plugin that lost cards": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
				node("n1", "p", 8).AllocatableGPUs(4)),
			want: []reason.Cause{reason.TooManyGPUs},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(tc.facts)
			var got []reason.Cause
			for _, finding := range report.Findings {
				got = append(got, finding.Cause)
				if finding.Text == "" || len(finding.Advice) == 0 {
					t.Errorf("%s has no text or no advice: %+v", finding.Cause, finding)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if report.Cause != tc.want[0] {
				t.Errorf("the cause is %s, want %s", report.Cause, tc.want[0])
			}
		})
	}
}

func TestNearMisses(t *testing.T) {
	facts := factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 8), node("n2", "p", 8), node("n3", "p", 8)).with(func(f *Facts) {
		f.Cluster.Pods = []corev1.Pod{on("n1", 3, "a"), on("n2", 1, "b"), on("n2", 1, "c"), on("n3", 8, "d")}
		f.Cluster.Pods[1].Labels = nil // a pod of no job
	})
	want := []NearMiss{
		{NearMiss: explain.NearMiss{Node: "n2", Short: 2, Detail: "6 of 8 free, 2 short"},
			Holders: []Holder{{Namespace: "team", Pod: "b-n2", GPUs: 1}, {Namespace: "team", Job: "c", GPUs: 1}}},
		{NearMiss: explain.NearMiss{Node: "n1", Short: 3, Detail: "5 of 8 free, 3 short"},
			Holders: []Holder{{Namespace: "team", Job: "a", GPUs: 3}}},
		{NearMiss: explain.NearMiss{Node: "n3", Short: 8, Detail: "0 of 8 free, 8 short"},
			Holders: []Holder{{Namespace: "team", Job: "d", GPUs: 8}}},
	}
	if diff := cmp.Diff(want, Diagnose(facts).NearMisses); diff != "" {
		t.Errorf("near misses (-want +got):\n%s", diff)
	}
}

func TestSchedulerState(t *testing.T) {
	unseen := fixture.Pod("p").GPUs(1).Pool("p").Obj()
	lease := func(holder string, ago time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](4), RenewTime: &metav1.MicroTime{Time: noon.Add(-ago)},
		}}
	}
	tests := map[string]struct {
		lease  *coordinationv1.Lease
		unread []snapshot.Part
		want   reason.Cause
	}{
		"there never was a scheduler":            {want: reason.SchedulerDown},
		"it gave its lease back when it ended":   {lease: lease("", time.Second), want: reason.SchedulerDown},
		"it died without a word":                 {lease: lease("a", time.Minute), want: reason.SchedulerDown},
		"it is alive and has not come to it yet": {lease: lease("a", time.Second), want: reason.WaitingForTurn},
		"one clock is some seconds off":          {lease: lease("a", 7*time.Second), want: reason.WaitingForTurn},
		"the lease may not be read":              {unread: []snapshot.Part{snapshot.PartLease}, want: reason.WaitingForTurn},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(*unseen).with(func(f *Facts) { f.Cluster.Lease, f.Cluster.Unread = tc.lease, tc.unread })
			if got := Diagnose(facts).Cause; got != tc.want {
				t.Errorf("the cause is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPlacements(t *testing.T) {
	host := node("n1", "p", 2).Obj()
	cards := gpu.Inventory{
		GPUs:  []gpu.GPU{{UUID: "GPU-0", Index: 0, Health: gpu.Healthy}, {UUID: "GPU-1", Index: 1, Health: gpu.Healthy}},
		Links: []gpu.Link{{GPUs: []int{0, 1}, NVLinks: 12}},
	}
	text, err := cards.Encode()
	if err != nil {
		t.Fatal(err)
	}
	host.Annotations = map[string]string{names.AnnotationInventory: text}
	devices := []gpu.Device{{UUID: "GPU-0", Index: 0}, {UUID: "GPU-1", Index: 1}}
	chosen, err := gpu.Assignment{"main": devices}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	running := on("n1", 2, "train")
	running.Annotations = map[string]string{names.AnnotationGPUDevices: chosen}
	forged := on("n1", 2, "train")
	forged.Annotations = map[string]string{names.AnnotationGPUDevices: "{}"}

	facts := factsOf(running).with(func(f *Facts) {
		f.Job.Status = inventory.StatusRunning
		f.Cluster.Nodes = []corev1.Node{*host}
		f.Pods = append(f.Pods, forged)
	})
	report := Diagnose(facts)
	want := []Placement{
		{Pod: "train-n1", Node: "n1", Pool: "p", Type: "A100-80G", Devices: devices,
			Connection: "NVLink, 100 % of the node's best"},
		{Pod: "train-n1", Node: "n1", Pool: "p", Type: "A100-80G"},
	}
	if diff := cmp.Diff(want, report.Placements); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	if report.Cause != reason.Running || len(report.Findings) > 0 {
		t.Errorf("a running job has cause %s and findings %v", report.Cause, report.Findings)
	}
}

func TestCreationAndContainers(t *testing.T) {
	job := func(status inventory.Status, reason, message string) Facts {
		return Facts{Cluster: snapshot.Snapshot{Now: noon}, Job: inventory.JobDetail{Job: inventory.Job{
			Name: "train", Namespace: "team", Status: status, Trouble: inventory.Trouble{Reason: reason, Message: message},
		}}}
	}
	container := func(state corev1.ContainerState, last *corev1.ContainerStateTerminated) Facts {
		pod := on("n1", 1, "train")
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", Image: "image", RestartCount: 3, State: state,
			LastTerminationState: corev1.ContainerState{Terminated: last},
		}}
		return job(inventory.StatusFailing, "", "").with(func(f *Facts) {
			f.Pods, f.Cluster.Nodes = []corev1.Pod{pod}, []corev1.Node{*node("n1", "p", 8).Obj()}
		})
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}
	}
	mounting := container(waiting("ContainerCreating"), nil).with(func(f *Facts) {
		f.Job.Events = []inventory.Event{{Reason: "FailedMount", Object: "Pod/train-n1", Message: "no such path /data"}}
	})
	retried := job(inventory.StatusFailing, "Error", "").with(func(f *Facts) {
		f.Job.Retries = ptr.To[int32](3)
		f.Job.Pods = []inventory.Pod{
			{Name: "train-1", Phase: "Failed", Created: noon, Trouble: inventory.Trouble{Message: "container main ended with exit code 7"}},
		}
	})
	refusedWith := func(message string) Facts {
		return job(inventory.StatusPending, "", "").with(func(f *Facts) { f.Job.Refusal = message })
	}
	tests := map[string]struct {
		facts Facts
		want  reason.Cause
		says  string
	}{
		"between two attempts":          {facts: retried, want: reason.Retrying, says: "container main ended with exit code 7; retry 1 of 3"},
		"a creation that was cut short": {facts: job(inventory.StatusPending, inventory.ReasonIncomplete, ""), want: reason.Incomplete, says: "not all objects"},
		"no controller":                 {facts: job(inventory.StatusPending, "WaitingForControllers", ""), want: reason.WaitingForControllers, says: "not created"},
		"a limit range":                 {facts: refusedWith(`pods "x" is forbidden: maximum cpu usage per Container is 2, but limit is 4`), want: reason.LimitRangeViolated, says: "2, but limit is 4"},
		"pod security":                  {facts: refusedWith(`pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "data")`), want: reason.PodSecurityViolated, says: "hostPath"},
		"a quota that wants limits":     {facts: refusedWith(`pods "x" is forbidden: failed quota: team: must specify limits.cpu for: main`), want: reason.QuotaExceeded, says: "limits.cpu"},
		"a webhook of the cluster": {facts: refusedWith("admission webhook denied the request: no"),
			want: reason.RefusedByAPIServer, says: "denied the request"},
		"a policy of the cluster": {facts: refusedWith(`pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no such image`), want: reason.RefusedByPolicy, says: "policy p"},
		"done":                    {facts: job(inventory.StatusSucceeded, "", ""), want: reason.Succeeded, says: "finished"},
		"being deleted":           {facts: job(inventory.StatusTerminating, "", ""), want: reason.Deleted, says: "deleted"},
		"a missing secret":        {facts: container(waiting("CreateContainerConfigError"), nil), want: reason.ContainerConfig, says: "because"},
		"a loop of crashes":       {facts: container(waiting("CrashLoopBackOff"), &corev1.ContainerStateTerminated{ExitCode: 2}), want: reason.Crashing, says: "exit code 2"},
		"a loop out of memory":    {facts: container(waiting("CrashLoopBackOff"), &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), want: reason.OutOfMemory, says: "3 times"},
		"a path that is missing":  {facts: mounting, want: reason.VolumeMount, says: "/data"},
		"an image on its way":     {facts: container(waiting("ContainerCreating"), nil), want: reason.Starting, says: "n1"},
		"a private image without": {facts: container(waiting("ErrImagePull"), nil), want: reason.ImagePull, says: "image cannot be pulled"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(tc.facts)
			if report.Cause != tc.want || !strings.Contains(report.Findings[0].Text, tc.says) {
				t.Errorf("cause %s, %+v; want %s with %q", report.Cause, report.Findings, tc.want, tc.says)
			}
		})
	}
}

// TestNobodyIsToldToOpenTheNodes to all pods of a namespace because one asks for more than a path.
func TestNobodyIsToldToOpenTheNodes(t *testing.T) {
	for forbidden, opens := range map[string]bool{
		`hostPath volumes (volume "data")`:                                  true,
		`host namespaces (hostPID=true), hostPath volumes (volume "data")`:  false,
		`hostPath volumes (volume "data"), privileged (container "main" …)`: false,
	} {
		finding := explainPodSecurity(&Facts{}, []string{"", "baseline", forbidden})
		told := slices.ContainsFunc(finding.Steps, func(s Step) bool { return s.Action == reason.LabelNamespace })
		if told != opens || len(finding.Steps) == 0 {
			t.Errorf("%s: told to relax the namespace: %t, want %t: %+v", forbidden, told, opens, finding.Steps)
		}
	}
}

// BenchmarkDiagnose is of a pod that fits on none of 1,000 nodes with 4,000 pods, for which each has to be looked at.
func BenchmarkDiagnose(b *testing.B) {
	facts := factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy))
	for i := range 1000 {
		name := "n" + resource.NewQuantity(int64(i), resource.DecimalSI).String()
		facts.Cluster.Nodes = append(facts.Cluster.Nodes, *node(name, "p", 8).Obj())
		for range 4 {
			facts.Cluster.Pods = append(facts.Cluster.Pods, on(name, 1, "other"))
		}
	}
	for b.Loop() {
		if report := Diagnose(facts); report.Cause != reason.Fragmented {
			b.Fatalf("%s, want %s", report.Cause, reason.Fragmented)
		}
	}
}

// TestWrongNames is about pools and types that are written wrongly, and the command that mends it.
func TestWrongNames(t *testing.T) {
	nodes := []*fixture.NodeBuilder{node("n1", "training-pool", 8), node("n2", "inference-pool", 8)}
	tests := map[string]struct {
		pod  *fixture.PodBuilder
		want []reason.Cause
		says string
	}{
		"letters are missing":       {fixture.Pod("p").GPUs(1).Pool("train-pool"), []reason.Cause{reason.NoSuchPool}, "did you mean pool training-pool? Move the job there: gpuctl move train -n team --pool training-pool"},
		"a letter is wrong":         {fixture.Pod("p").GPUs(1).Pool("inferense-pool"), []reason.Cause{reason.NoSuchPool}, "did you mean pool inference-pool?"},
		"nothing is near":           {fixture.Pod("p").GPUs(1).Pool("x"), []reason.Cause{reason.NoSuchPool}, "gpuctl move train -n team --pool inference-pool"},
		"the type is wrong as well": {fixture.Pod("p").GPUs(1).Pool("train-pool").Type("A100-80g"), []reason.Cause{reason.NoSuchPool, reason.TypeMisspelt}, "did you mean A100-80G?"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []reason.Cause
			var advice []string
			for _, finding := range Diagnose(factsOf(refused(tc.pod, busy), nodes...)).Findings {
				got, advice = append(got, finding.Cause), append(advice, finding.Advice...)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || !strings.Contains(strings.Join(advice, "\n"), tc.says) {
				t.Errorf("advice is %q, want %q; causes (-want +got):\n%s", advice, tc.says, diff)
			}
		})
	}
}
