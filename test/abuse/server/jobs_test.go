package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// makeJobs makes the jobs that calls are about: one of the neighbour's; one of the attacker's whose submitted YAML
// unfolds to gigabytes; and the pod of one that prints a line without end.
func makeJobs(t *testing.T) {
	t.Helper()
	bomb := "kind: training\na: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", 3000), ",") + "]\n"
	makeSuspended(t, "quiet", training("quiet"))
	makeSuspended(t, "stored", bomb)
	makePrinting(t, "printing", withoutEnd)
}

// makeEndless makes the pod of a job that prints forever.
func makeEndless(t *testing.T) {
	t.Helper()
	makeSuspended(t, "quiet", training("quiet"))
	makePrinting(t, "endless", steadily)
}

// makePrinting makes a pod that has printed what a function writes, and goes on when it is followed.
func makePrinting(t *testing.T, job string, output func(w io.Writer, follow bool)) {
	t.Helper()
	node := printingKubelet(t, job, output)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job + "-0", Labels: labels(job)},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
	made, err := client.CoreV1().Pods(team).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Phase = corev1.PodRunning
	made.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	if _, err := client.CoreV1().Pods(team).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func labels(job string) map[string]string {
	return map[string]string{names.LabelJob: job, names.LabelJobType: "training"}
}

// makeSuspended makes a job that has no pods, unless it is there.
func makeSuspended(t *testing.T, name, submitted string) {
	t.Helper()
	_, err := client.BatchV1().Jobs(team).Create(t.Context(), suspended(name, submitted), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func suspended(name, submitted string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(name), Annotations: map[string]string{names.AnnotationSubmitted: submitted}},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels(name)},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
		}},
	}
}

// withoutEnd is 280 MiB without the end of a line, and more when it is followed.
func withoutEnd(w io.Writer, follow bool) {
	chunk := bytes.Repeat([]byte("\x01\x02z"), 1<<18)
	_, _ = io.WriteString(w, stamp())
	for sent := 0; sent < 280<<20 || follow; sent += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// steadily is more than anybody of those reads who read slowly, and no more than a node prints while others work.
func steadily(w io.Writer, _ bool) {
	line := stamp() + strings.Repeat("\x01\x02z", 5<<10) + "\n"
	for {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// aPage is nearly as much as is answered at once.
func aPage(w io.Writer, _ bool) {
	for range 3500 {
		_, _ = fmt.Fprintf(w, "%s%s\n", stamp(), strings.Repeat("z", 1000))
	}
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339Nano) + " " }

// printingKubelet registers a node whose pods have printed what a function writes.
func printingKubelet(t *testing.T, name string, output func(w io.Writer, follow bool)) (node string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		output(w, r.URL.Query().Get("follow") == "true")
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	printing := fixture.Node(name).Obj()
	printing.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	printing.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := client.CoreV1().Nodes().Create(t.Context(), printing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return printing.Name
}
