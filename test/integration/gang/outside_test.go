package gang

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// outsiders are gangs of three for which two nodes have room, and of which other plugins keep a member out: what they ask for, and what they
// are to say. The number is that of the member.
var outsiders = map[string]struct {
	asks func(pod *corev1.Pod, number int)
	says string
}{
	"apart":   {asks: func(pod *corev1.Pod, _ int) { apart(pod) }, says: "didn't match pod anti-affinity rules"},
	"aloof":   {asks: func(pod *corev1.Pod, _ int) { apart(pod) }, says: "didn't match pod anti-affinity rules"},
	"port":    {asks: func(pod *corev1.Pod, _ int) { listens(pod, 8471) }, says: "didn't have free ports"},
	"spread":  {asks: func(pod *corev1.Pod, _ int) { spreads(pod, "example.com/none") }, says: "didn't match pod topology spread constraints"},
	"volume":  {asks: mountsElsewhere, says: "node affinity"},
	"unbound": {asks: mountsNothing, says: "not found"},
}

func apart(pod *corev1.Pod) {
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: groupOf(pod)}}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

func listens(pod *corev1.Pod, port int32) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
}

func spreads(pod *corev1.Pod, key string) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: groupOf(pod)},
	}}
}

// mountsElsewhere has the last member use a volume that is on a node of another pool, and mountsNothing one that is not there.
func mountsElsewhere(pod *corev1.Pod, number int) {
	if number == 2 {
		mounting("elsewhere")(&pod.Spec)
	}
}

func mountsNothing(pod *corev1.Pod, number int) {
	if number == 2 {
		mounting("missing")(&pod.Spec)
	}
}

func groupOf(pod *corev1.Pod) map[string]string {
	return map[string]string{names.LabelPodGroup: pod.Labels[names.LabelPodGroup]}
}

// outsider makes a gang of three that ask for two GPUs each.
func (e *env) outsider(name string) {
	e.Helper()
	e.group(name, 3)
	for number := range 3 {
		e.member(name, fmt.Sprint(name, "-", number), func(pod *corev1.Pod) {
			of := pod.Spec.Containers[0].Resources
			of.Limits[names.ResourceGPU], of.Requests[names.ResourceGPU] = resource.MustParse("2"), resource.MustParse("2")
			outsiders[name].asks(pod, number)
		})
	}
}

// writes counts the changes of a namespace's pods for a while.
func (e *env) writes(while time.Duration) (count int) {
	e.Helper()
	list, err := cluster.Client.CoreV1().Pods(e.Namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	watch, err := cluster.Client.CoreV1().Pods(e.Namespace).Watch(e.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		e.Fatal(err)
	}
	defer watch.Stop()
	for end := time.After(while); ; {
		select {
		case <-watch.ResultChan():
			count++
		case <-end:
			return count
		}
	}
}

// TestGangsThatOtherPluginsKeepOutAreQuiet, several at once: each was tried without end, with eight writes a second for a member, and said one
// thing and then another. A gang beside them starts.
func TestGangsThatOtherPluginsKeepOutAreQuiet(t *testing.T) {
	e := newEnv(t)
	e.claim("elsewhere", "racked-02")
	for name := range outsiders {
		e.outsider(name)
	}
	time.Sleep(9 * time.Second) // by then they are tried each eight seconds, and then each sixteen
	const members = 3
	if got, most := e.writes(12*time.Second), 2*members*len(outsiders); got > most {
		t.Errorf("their %d pods were written to %d times in 12 s, want at most %d", members*len(outsiders), got, most)
	}
	for name, of := range outsiders {
		for number := range members {
			e.saysOf(fmt.Sprint(name, "-", number), of.says)
		}
	}
	e.group("beside", 2)
	e.member("beside", "beside-0")
	e.member("beside", "beside-1")
	e.waitBound("beside-0")
	e.waitBound("beside-1")
}

// saysOf demands that a pod says something of why it has no node.
func (e *env) saysOf(name, want string) {
	e.Helper()
	pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for i := range pod.Status.Conditions {
		if strings.Contains(pod.Status.Conditions[i].Message, want) {
			return
		}
	}
	e.Errorf("%s says %+v, want %q", name, pod.Status.Conditions, want)
}
