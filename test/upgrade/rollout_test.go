package upgrade

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/stand"
)

// replicas is how many pods each program has, as the manifests have it.
const replicas = 2

// rollout is the pods of one Deployment, or the one of a StatefulSet.
type rollout struct {
	namespace, name string
	// volume is what a StatefulSet's pod leaves to the next one, in a folder; "" for a Deployment.
	volume, folder string
	pods           []*stand.Pod
	all            []*stand.Pod // those that have ended, too
	// ended is when a pod was told to end.
	ended []time.Time
}

// start starts one more pod of the template that is installed, with the program of a release, and returns when it is ready.
func (r *rollout) start(t *testing.T, of release) {
	t.Helper()
	pod := stand.New(t, cluster, client, r.namespace, r.template(t))
	if r.volume != "" {
		pod.Keep(r.volume, r.folder)
	}
	pod.Start(of.bin, fmt.Sprintf("%s-%d-%s", r.name, len(r.all), of.name))
	r.pods, r.all = append(r.pods, pod), append(r.all, pod)
	pod.Probe()
}

// template is of the pods as they are installed now.
func (r *rollout) template(t *testing.T) corev1.PodSpec {
	t.Helper()
	if r.volume != "" {
		set, err := client.AppsV1().StatefulSets(r.namespace).Get(t.Context(), r.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return set.Spec.Template.Spec
	}
	deployment, err := client.AppsV1().Deployments(r.namespace).Get(t.Context(), r.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template.Spec
}

// roll replaces all pods as the Deployment says: one more is ready before one ends.
func (r *rollout) roll(t *testing.T, to release, between func()) {
	t.Helper()
	for range replicas {
		r.start(t, to)
		between()
		r.end(t)
	}
}

// replace has the one pod end before the next begins, as that of a StatefulSet does.
func (r *rollout) replace(t *testing.T, to release) {
	t.Helper()
	r.end(t)
	r.start(t, to)
}

// end tells the pod that is there for longest to end, as kubelet does, and waits for it; or kills it.
func (r *rollout) end(t *testing.T) {
	t.Helper()
	pod := r.pods[0]
	r.pods = r.pods[1:]
	r.ended = append(r.ended, time.Now())
	signal := syscall.SIGTERM
	if *kill {
		signal = syscall.SIGKILL
	}
	if err := pod.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-pod.Done():
	case <-time.After(bounds.Patience):
		t.Fatalf("%s does not end\n%s", pod.Name(), pod.LogTail())
	}
}

// stop ends what runs, when the test has ended.
func (r *rollout) stop(t *testing.T) {
	for _, pod := range r.pods {
		if err := pod.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// What no log of a program may have: at any time, and while the rights are those of its release or of a newer one.
var (
	broken  = regexp.MustCompile(`panic|strict decoding error|cannot unmarshal|no matches for kind`)
	refused = regexp.MustCompile(`(?i)forbidden|could not find the requested resource`)
)

// judgeLogs looks for lines in the logs of all pods of a release that there were.
func (r *rollout) judgeLogs(t *testing.T, of release, wrong *regexp.Regexp) {
	t.Helper()
	for _, pod := range r.all {
		if !strings.HasSuffix(pod.Name(), of.name) {
			continue
		}
		log, err := os.ReadFile(pod.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if wrong.MatchString(line) {
				t.Errorf("%s: %s", pod.Name(), line)
			}
		}
	}
}
