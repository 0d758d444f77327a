package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// kubelet is a node as far as the API server reads logs from it: what a job's pod prints comes through the API server,
// as from every node.
type kubelet struct {
	*api
	node string

	mu      sync.Mutex
	lines   []string
	printed chan struct{} // closed when there is more, or the pod ends
	over    bool
}

// newKubelet registers a node whose pods print what the test says.
func newKubelet(a *api, name string) *kubelet {
	a.Helper()
	k := &kubelet{api: a, node: name, printed: make(chan struct{})}
	server := httptest.NewTLSServer(http.HandlerFunc(k.serve))
	a.Cleanup(func() { k.end(); server.CloseClientConnections(); server.Close() })
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		a.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		a.Fatal(err)
	}
	node := fixture.Node(name).Obj()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := client.CoreV1().Nodes().Create(a.Context(), node, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			a.Error(err)
		}
	})
	return k
}

// serve answers with all lines, and follows if asked.
func (k *kubelet) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/containerLogs/") {
		http.NotFound(w, r)
		return
	}
	for sent := 0; ; {
		k.mu.Lock()
		lines, over, more := k.lines[sent:], k.over, k.printed
		k.mu.Unlock()
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		sent += len(lines)
		_ = http.NewResponseController(w).Flush()
		if over || r.URL.Query().Get("follow") != "true" {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// print lets the pod print lines, each at its own time.
func (k *kubelet) print(lines ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range lines {
		k.lines = append(k.lines, time.Now().Add(time.Duration(len(k.lines))*time.Microsecond).UTC().Format(time.RFC3339Nano)+" "+line)
	}
	close(k.printed)
	k.printed = make(chan struct{})
}

func (k *kubelet) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.over = true
		close(k.printed)
	}
}

// bind puts a pod on a node, as a scheduler would. The API server takes no binding as long as no scheduler has ever led.
func (a *api) bind(pod *corev1.Pod, node string) {
	a.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: names.SchedulerName}}
	_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(a.Context(), lease, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		a.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	a.eventually("the binding to be taken", func() bool {
		return client.CoreV1().Pods(team).Bind(a.Context(), binding, metav1.CreateOptions{}) == nil
	})
}

// run puts the pod of a job on the node, and lets it run.
func (k *kubelet) run(job string) {
	k.Helper()
	k.bind(k.pod(job), k.node)
	k.report(job, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
}

// finish lets the pod of a job end well.
func (k *kubelet) finish(job string) {
	k.Helper()
	k.end()
	k.report(job, corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Reason: "Completed",
	}})
}

func (k *kubelet) pod(job string) *corev1.Pod {
	k.Helper()
	var found *corev1.Pod
	k.eventually("the pod of job "+job, func() bool {
		pods, err := client.CoreV1().Pods(team).List(k.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=" + job})
		if err != nil || len(pods.Items) != 1 {
			return false
		}
		found = &pods.Items[0]
		return true
	})
	return found
}

func (k *kubelet) report(job string, phase corev1.PodPhase, state corev1.ContainerState) {
	k.Helper()
	pod := k.pod(job)
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: state, Ready: state.Running != nil}}
	if _, err := client.CoreV1().Pods(team).UpdateStatus(k.Context(), pod, metav1.UpdateOptions{}); err != nil {
		k.Fatal(err)
	}
}

// TestOutputComesOnceHoweverItIsFollowed reads the lines of a job at once, as events and on a WebSocket, each broken off
// and gone on with.
func TestOutputComesOnceHoweverItIsFollowed(t *testing.T) {
	a := start(t, logOptions)
	node := newKubelet(a, "printing")
	a.create("printing", training("printing"))
	node.run("printing")
	node.print("one", "two")

	sse := request{path: jobs + "/printing/logs?namespace=team&follow=true", user: reader}
	ctx, hangUp := context.WithCancel(t.Context())
	events := a.events(ctx, sse)
	a.same("the first line", "one", a.until(events, "log", "").data["text"])
	last := a.until(events, "log", "")
	a.same("the second line", "two", last.data["text"])
	hangUp()
	first := a.dial(t.Context(), jobs+"/printing/logs/ws?namespace=team", reader)
	a.same("the first message", "one", first.until("log")["data"])
	seen := first.until("log")
	a.same("the second message", "two", seen["data"])
	origin, _ := seen["line"].(map[string]any)
	a.same("the container of a line", "main", origin["container"])
	first.hangUp()

	node.print("three")
	sse.header = map[string]string{"Last-Event-ID": last.id}
	a.same("the line after the break, as an event", "three", a.until(a.events(t.Context(), sse), "log", "").data["text"])
	id, _ := seen["id"].(string)
	second := a.dial(t.Context(), jobs+"/printing/logs/ws?namespace=team&lastEventId="+id, reader)
	a.same("the line after the break, as a message", "three", second.until("log")["data"])
	page := a.want(http.StatusOK, request{path: jobs + "/printing/logs?namespace=team", user: reader})
	a.same("the lines at once", []any{"one", "two", "three"}, page["logs"])

	node.finish("printing")
	end, _ := second.until("end")["data"].(map[string]any)
	a.same("how the job ended", "Succeeded", end["status"])
	second.closes(1000, "the job has ended")
}
