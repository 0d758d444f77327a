package defrag

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/test/bounds"
)

// TestAStepThatTakesTooLong moves a pod in whose place none may be created, with an API server that answers at once and with one that is
// slow: what was done is said, what was not, how to go on, and the exit code is that of a timeout.
func TestAStepThatTakesTooLong(t *testing.T) {
	bounds.SkipInShort(t)
	for name, slow := range map[string]time.Duration{"at once": 0, "slowly": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.waitsForOne()
			one := e.running("one")
			lift := e.noMorePods()
			streams, stdout, stderr := cli.TestIOStreams("")
			args := []string{"gpuctl", "--kubeconfig", e.slowed(slow), "advise", "defrag", "--apply", "--min-run", "0s", "--timeout", "3s"}
			code := cli.Run(t.Context(), cli.NewFactory(streams), args)
			said := stderr.String()
			for _, want := range []string{
				"after 3s", "has no pod on another node yet", "Moved: nothing. Evicted, and on no other node yet: " + e.namespace + "/" + one.Name + ". Not moved: nothing.",
				"all nodes are open again", "gpuctl advise defrag --apply makes a new plan",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if code != 8 || strings.Contains(said, "rate") || strings.Contains(said, "context") {
				t.Errorf("exit code %d, want 8\n%s\n%s", code, stdout, said)
			}
			if closed := e.closed(); len(closed) > 0 {
				t.Errorf("the nodes %v are still closed", closed)
			}
			lift()
			e.running("one")
		})
	}
}

// TestANodeThatCannotBeOpenedIsNamed loses the right to change nodes once the pod is evicted: who is told that all nodes are
// open would wait forever for pods on the one that is not.
func TestANodeThatCannotBeOpenedIsNamed(t *testing.T) {
	e := newEnv(t)
	e.waitsForOne()
	one := e.running("one")
	lift := e.noMorePods()
	var evicted atomic.Bool
	through := e.through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if evicted.Load() && r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
			http.Error(w, "no more", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/eviction") {
			evicted.Store(true)
		}
	})
	streams, stdout, stderr := cli.TestIOStreams("")
	code := cli.Run(t.Context(), cli.NewFactory(streams),
		[]string{"gpuctl", "--kubeconfig", through, "advise", "defrag", "--apply", "--min-run", "0s", "--timeout", "3s"})
	closed, said := e.closed(), stderr.String()
	if len(closed) != 1 {
		t.Fatalf("the nodes %v are closed, want one\n%s\n%s", closed, stdout, said)
	}
	for _, want := range []string{
		"Evicted, and on no other node yet: " + e.namespace + "/" + one.Name, "closed to new pods are still: " + closed[0],
		"kubectl taint node " + closed[0] + " g8s.host/moving-",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if code == 0 || strings.Contains(said, "nodes are open again") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, said)
	}
	lift()
	e.open(closed[0])
	e.running("one")
}

// open takes the taint off a node, as an administrator does who was told to.
func (e *env) open(node string) {
	e.Helper()
	patch := []byte(`{"spec":{"taints":null}}`)
	if _, err := client.CoreV1().Nodes().Patch(e.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
}

// noMorePods has the namespace take no pod more, until it is lifted.
func (e *env) noMorePods() (lift func()) {
	e.Helper()
	quotas := client.CoreV1().ResourceQuotas(e.namespace)
	_, err := quotas.Create(e.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.wait(e.Context(), "the quota to be counted", func(ctx context.Context) (bool, error) {
		got, err := quotas.Get(ctx, "full", metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) > 0, err
	})
	return func() {
		if err := quotas.Delete(e.Context(), "full", metav1.DeleteOptions{}); err != nil {
			e.Error(err)
		}
	}
}

// slowed is a kubeconfig of the cluster by way of somebody who takes a while to pass anything on.
func (e *env) slowed(by time.Duration) string {
	return e.through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(by)
		next.ServeHTTP(w, r)
	})
}

// through is a kubeconfig of the cluster by way of somebody who passes requests on, or does not.
func (e *env) through(pass func(http.ResponseWriter, *http.Request, http.Handler)) string {
	e.Helper()
	target, err := url.Parse(admin.Host)
	if err != nil {
		e.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(admin); err != nil {
		e.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass(w, r, proxy)
	}))
	e.Cleanup(front.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["front"] = &clientcmdapi.Cluster{Server: front.URL}
	config.Contexts["front"] = &clientcmdapi.Context{Cluster: "front"}
	config.CurrentContext = "front"
	path := filepath.Join(e.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		e.Fatal(err)
	}
	return path
}
