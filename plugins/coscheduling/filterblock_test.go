package coscheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

const zone = corev1.LabelTopologyZone

// term selects the pods of a namespace by a label.
func term(key, value, topology string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}
}

// repelling keeps a pod from others that have a label.
func repelling(key, value, topology string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(key, value, topology)}}
	}
}

func besideOnes(key, value, topology string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(key, value, topology)}}
	}
}

func spreadOver(key, value, topology string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: topology, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}
	}
}

func atPort(port int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}} }
}

func withVolume(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "v"}}}}
}

func labeled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}

// adds has the plugin know of a node.
func (l *lab) adds(node *corev1.Node) {
	l.Helper()
	l.must(l.store.Add(node))
}

// happening is what happens in the cluster: a pod leaves a node or comes, or changes its labels, or a node comes or changes.
type happening struct {
	leaves, comes *corev1.Pod
	relabeled     *corev1.Pod
	node, was     *corev1.Node
}

func (h *happening) tell(l *lab, pod *corev1.Pod) error {
	var err error
	switch {
	case h.leaves != nil:
		_, err = l.afterPodChange(klog.Background(), pod, h.leaves, nil)
	case h.comes != nil:
		_, err = l.afterPodChange(klog.Background(), pod, nil, h.comes)
	case h.relabeled != nil:
		after := h.relabeled.DeepCopy()
		after.Labels = nil
		_, err = l.afterPodChange(klog.Background(), pod, h.relabeled, after)
	case h.was != nil:
		_, err = l.afterNodeChange(klog.Background(), pod, h.was, h.node)
	default:
		_, err = l.afterNodeChange(klog.Background(), pod, nil, h.node)
	}
	return err
}

// on makes a pod with a GPU on a node, of the namespace of the gangs.
func on(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := placed(fixture.Pod("there").GPUs(1).Obj(), node)
	pod.Namespace = "ns"
	for _, change := range change {
		change(pod)
	}
	return pod
}

// in makes a node of a zone.
func in(zoneName, name string, change ...func(*corev1.Node)) *corev1.Node {
	node := fixture.Node(name).GPUs(8, "T4").Label(zone, zoneName).Obj()
	for _, change := range change {
		change(node)
	}
	return node
}

func closed(node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{{Key: "others", Effect: corev1.TaintEffectNoSchedule}}
}

// TestWhatIsNewsToAGangThatIsKeptOut: there are four nodes, two of them in zone a. A plugin keeps the last member of a gang off n0 in zone a and n2 in
// zone b; n1 in zone a and n3 in zone c are full. What cannot have that plugin let it in has nothing tried.
func TestWhatIsNewsToAGangThatIsKeptOut(t *testing.T) {
	const (
		affinity = "InterPodAffinity"
		beside   = "node(s) didn't match pod affinity rules"
	)
	for name, tc := range map[string]struct {
		by, says string
		member   func(*corev1.Pod)
		// one is another member than that, nil for one like it.
		one  func(*corev1.Pod)
		what happening
		soon bool
	}{
		"apart: one of those leaves":                       {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n1", labeled("app", "x"))}, soon: true},
		"apart: one of those leaves another pool":          {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("far", labeled("app", "x"))}, soon: true},
		"apart: one of those has another label now":        {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{relabeled: on("n0", labeled("app", "x"))}, soon: true},
		"apart: another pod has another label now":         {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{relabeled: on("n0", labeled("app", "y"))}},
		"apart: another pod leaves a node it is kept off":  {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n0")}},
		"apart: another pod leaves a full one beside that": {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n1")}},
		"apart: another pod leaves a full one elsewhere":   {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n3")}, soon: true},
		"apart: of one node, a pod leaves the one beside":  {by: affinity, says: antiAffinity, member: repelling("app", "x", corev1.LabelHostname), what: happening{leaves: on("n1")}, soon: true},
		"apart: a pod that repels it leaves":               {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n2", repelling("app", "small", zone))}, soon: true},
		"apart: a pod that repels others leaves":           {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{leaves: on("n2", repelling("app", "large", zone))}},
		"apart: a node comes beside":                       {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{node: in("a", "new")}},
		"apart: a node comes elsewhere":                    {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{node: in("d", "new")}, soon: true},
		"apart: one comes elsewhere that is not for it":    {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{node: in("d", "new", closed)}},
		"apart: a node beside has more":                    {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{was: fixture.Node("n1").GPUs(4, "T4").Label(zone, "a").Obj(), node: in("a", "n1")}},
		"apart: a node moves to a zone it is kept off":     {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), what: happening{was: in("c", "n3"), node: in("a", "n3")}, soon: true},
		"apart: with another member a pod leaves":          {by: affinity, says: antiAffinity, member: repelling("app", "x", zone), one: ofApp("small", 2), what: happening{leaves: on("n0")}, soon: true},
		"repelled: that one leaves":                        {by: affinity, says: string(reason.Repelled.Text), member: repelling("app", "x", zone), what: happening{leaves: on("n2", repelling("app", "small", "rack"))}, soon: true},
		"repelled: another pod leaves":                     {by: affinity, says: string(reason.Repelled.Text), member: repelling("app", "x", zone), what: happening{leaves: on("n2")}},
		"repelled: another pod leaves a full one beside":   {by: affinity, says: string(reason.Repelled.Text), member: repelling("app", "x", zone), what: happening{leaves: on("n1")}, soon: true},
		"beside: one of those comes":                       {by: affinity, says: beside, member: besideOnes("app", "x", zone), what: happening{comes: on("n3", labeled("app", "x"))}, soon: true},
		"beside: another one comes":                        {by: affinity, says: beside, member: besideOnes("app", "x", zone), what: happening{comes: on("n3")}},
		"beside: another one leaves":                       {by: affinity, says: beside, member: besideOnes("app", "x", zone), what: happening{leaves: on("n0")}},
		"ports: one with that port leaves":                 {by: "NodePorts", says: "ports", member: atPort(80), what: happening{leaves: on("n0", atPort(80))}, soon: true},
		"ports: one with another leaves":                   {by: "NodePorts", says: "ports", member: atPort(80), what: happening{leaves: on("n0", atPort(81))}},
		"ports: one leaves a full node":                    {by: "NodePorts", says: "ports", member: atPort(80), what: happening{leaves: on("n1")}, soon: true},
		"spread: one of those leaves":                      {by: "PodTopologySpread", says: "spread", member: spreadOver("app", "small", zone), what: happening{leaves: on("n0", labeled("app", "small"))}, soon: true},
		"spread: one of those comes elsewhere":             {by: "PodTopologySpread", says: "spread", member: spreadOver("app", "small", zone), what: happening{comes: on("n3", labeled("app", "small"))}, soon: true},
		"spread: another one leaves":                       {by: "PodTopologySpread", says: "spread", member: spreadOver("app", "small", zone), what: happening{leaves: on("n1")}},
		"spread: another one leaves a full zone":           {by: "PodTopologySpread", says: "spread", member: spreadOver("app", "small", zone), what: happening{leaves: on("n3")}, soon: true},
		"volumes: one with a volume leaves":                {by: "NodeVolumeLimits", says: "volumes", member: withVolume, what: happening{leaves: on("n2", withVolume)}, soon: true},
		"volumes: one without leaves":                      {by: "NodeVolumeLimits", says: "volumes", member: withVolume, what: happening{leaves: on("n2")}},
		"volumes: a node changes":                          {by: "VolumeZone", says: "volumes", member: withVolume, what: happening{was: fixture.Node("n0").GPUs(4, "T4").Label(zone, "a").Obj(), node: in("a", "n0")}, soon: true},
		"by somebody else: any pod leaves":                 {by: "Others", says: "no", member: func(*corev1.Pod) {}, what: happening{leaves: on("n0")}, soon: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 4)
			for i, zoneName := range []string{"a", "a", "b", "c"} {
				l.infos[i].Node().Labels[zone] = zoneName
			}
			l.adds(fixture.Node("far").Pool("other").Label(zone, "a").Obj())
			now := l.keepsClock()
			l.group("g", map[string]any{"minMember": int64(3)})
			var pods []*corev1.Pod
			for i := range 3 {
				member := tc.member
				if i == 0 && tc.one != nil {
					member = tc.one
				}
				pods = append(pods, l.member(fmt.Sprint("m", i), ofApp("small", 2), member))
			}
			refused := framework.NewDefaultNodeToStatus()
			for i, by := range []string{tc.by, "GPUFilter", tc.by, "GPUFilter"} {
				refused.Set(fmt.Sprint("n", i), fwk.NewStatus(fwk.Unschedulable, tc.says).WithPlugin(by))
			}
			for range 7 { // a minute by then
				*now = now.Add(phase.BaseBackoff)
				l.held = nil
				l.outsideBy(pods, refused)
			}
			l.must(tc.what.tell(l, pods[2]))
			*now = now.Add(phase.MinRejectionBackoff)
			if soon := !l.isKept(pods[2]); soon != tc.soon {
				t.Errorf("it is tried soon: %t", soon)
			}
			*now = now.Add(phase.BaseBackoff)
			if l.isKept(pods[2]) {
				t.Error("it is never tried again")
			}
		})
	}
}

// TestAThousandGangsThatAreKeptOutLetOthersComeAndGo: what leaves their nodes cannot let them in, and none of them is tried for it.
func TestAThousandGangsThatAreKeptOutLetOthersComeAndGo(t *testing.T) {
	l := newLab(t, 4)
	now := l.keepsClock()
	var gangs [][]*corev1.Pod
	for i := range 1000 {
		name := fmt.Sprint("g", i)
		l.group(name, map[string]any{"minMember": int64(2)})
		var pods []*corev1.Pod
		for j := range 2 {
			pods = append(pods, l.member(fmt.Sprint(name, "-", j), ofApp("small", 2), func(pod *corev1.Pod) {
				pod.Labels[names.LabelPodGroup] = name
				repelling(names.LabelPodGroup, name, names.LabelPool)(pod)
			}))
		}
		gangs = append(gangs, pods)
	}
	for range 7 { // a minute by then
		*now = now.Add(phase.BaseBackoff)
		l.held = nil
		for _, pods := range gangs {
			l.outside(pods)
		}
	}
	for node := range 4 {
		gone := on(fmt.Sprint("n", node))
		for _, pods := range gangs {
			if got, err := l.afterPodChange(klog.Background(), pods[1], gone, nil); err != nil || got == fwk.Queue {
				t.Fatalf("%s is tried at once: %v", pods[1].Name, err)
			}
		}
	}
	*now = now.Add(phase.MinRejectionBackoff)
	tried := 0
	for _, pods := range gangs {
		if !l.isKept(pods[1]) {
			tried++
		}
	}
	if tried > 0 {
		t.Errorf("%d gangs are tried", tried)
	}
}
