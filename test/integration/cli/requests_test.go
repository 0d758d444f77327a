package cli

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// counter counts the requests that pass through it.
type counter struct {
	http.RoundTripper
	requests atomic.Int32
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(request)
}

// TestListingCostsTheSameInAnyCluster counts requests before and after the cluster grew.
func TestListingCostsTheSameInAnyCluster(t *testing.T) {
	count := &counter{}
	config := rest.CopyConfig(admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		count.RoundTripper = next
		return count
	})
	counted, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	reader := inventory.NewReader(counted)
	list := func() (jobs int, requests int32) {
		before := count.requests.Load()
		all, err := reader.Jobs(t.Context(), inventory.JobQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Fleet(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(all), count.requests.Load() - before
	}
	// A job without pods costs the request for events, now and then.
	newSession(t).expect(0, "", training("first"), "create", "-f", "-")
	jobsBefore, requestsBefore := list()
	const namespaces = 30
	for i := range namespaces {
		newSession(t).waitingJob(fmt.Sprintf("job-%d", i))
	}
	jobsAfter, requestsAfter := list()
	if jobsAfter != jobsBefore+namespaces {
		t.Errorf("%d jobs are listed, want %d", jobsAfter, jobsBefore+namespaces)
	}
	if requestsBefore != requestsAfter {
		t.Errorf("listing costs %d requests with %d jobs and %d with %d", requestsBefore, jobsBefore, requestsAfter, jobsAfter)
	}
}

// waitingJob creates a job with a pod that nothing schedules.
func (s *session) waitingJob(name string) {
	s.Helper()
	s.expect(0, "", training(name), "create", "-f", "-")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{names.LabelJob: name, names.LabelJobType: "training"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
	}
	if _, err := client.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}
