package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
)

// program builds gpuctl-server.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "gpuctl-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../../cmd/gpuctl-server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// secure is a client that trusts a server's certificate and nothing else.
func secure(t *testing.T, caFile string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("the certificate is none")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// TestARestartLosesNoAcceptedJob ends the program, which has a certificate and the ServiceAccount of the manifests, while
// clients submit: in order, and by force. Every job that was answered with 201 is there.
func TestARestartLosesNoAcceptedJob(t *testing.T) {
	bounds.SkipInShort(t)
	options := sandbox.ServerOptions{Binary: program(t), Args: []string{"--rate=1000", "--burst=1000"}}
	process, err := cluster.StartServer(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	options.Port = process.Port()
	web, url := secure(t, process.CAFile), process.URL
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	accepted := map[string]bool{}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("restart-%d-%d", worker, i)
				if submitted(web, url, name) {
					mu.Lock()
					accepted[name] = true
					mu.Unlock()
				}
			}
		})
	}
	for _, end := range []func(*sandbox.Process) error{(*sandbox.Process).Stop, (*sandbox.Process).Kill} {
		time.Sleep(time.Second)
		if err := end(process.Process); err != nil {
			t.Fatal(err)
		}
		if process, err = cluster.StartServer(t.Context(), options); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	stop()
	group.Wait()
	if err := process.Stop(); err != nil {
		t.Error(err)
	}
	there := map[string]bool{}
	jobs, err := client.BatchV1().Jobs(team).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs.Items {
		there[job.Name] = true
	}
	for name := range accepted {
		if !there[name] {
			t.Errorf("job %s was accepted, and is lost", name)
		}
	}
	if len(accepted) < 10 {
		t.Errorf("only %d jobs were accepted, so this proves nothing", len(accepted))
	}
	t.Logf("%d jobs accepted over two restarts, none lost", len(accepted))
	if err := client.BatchV1().Jobs(team).DeleteCollection(t.Context(),
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// submitted submits a job and reports whether it was accepted. It waits a little after a failure: the server is away.
func submitted(web *http.Client, url, name string) bool {
	r, err := request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training(name))}.build(context.Background(), url)
	if err != nil {
		return false
	}
	answer, err := web.Do(r)
	if err != nil {
		time.Sleep(20 * time.Millisecond)
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusCreated
}
