package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/abuse"
)

// maxResident is what the server may ever take of memory, in bytes.
const maxResident = 512 << 20

// target is the program under attack.
type target struct {
	*testing.T
	*sandbox.Server
	ca *x509.CertPool
}

// launch runs the server with the memory of its Deployment.
func launch(t *testing.T, args ...string) *target {
	t.Helper()
	process, err := cluster.StartServer(t.Context(), sandbox.ServerOptions{
		Binary: program(t, sandbox.ServerName), Env: []string{"GOMEMLIMIT=" + memoryLimit(t)},
		Args: args,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	ca, err := os.ReadFile(process.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	out := &target{T: t, Server: process, ca: x509.NewCertPool()}
	out.ca.AppendCertsFromPEM(ca)
	return out
}

// memoryLimit is GOMEMLIMIT of the Deployment, which leaves room for what Go does not count.
func memoryLimit(t *testing.T) string {
	t.Helper()
	data, err := manifests.FS.ReadFile("server/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(data, &deployment); err != nil {
		t.Fatal(err)
	}
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "GOMEMLIMIT" {
			return variable.Value
		}
	}
	t.Fatal("the Deployment has no GOMEMLIMIT")
	return ""
}

// resident is what the process takes of memory, "VmRSS" for now and "VmHWM" for the most there ever was.
func (g *target) resident(field string) int {
	g.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.PID()))
	if err != nil {
		g.Fatal(err)
	}
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(data)
	if found == nil {
		g.Fatalf("no %s in %s", field, data)
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib << 10
}

// cpu is how long the process has had a core.
func (g *target) cpu() time.Duration {
	g.Helper()
	return abuse.CPUTime(g.T, g.PID())
}

// addresses are where callers come from: what the server bounds of an address is not the neighbour's.
var addresses = map[string]string{attacker: "127.0.0.2", neighbour: "127.0.0.3"}

// from makes connections come from the address of a caller.
func from(caller string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addresses[caller])}}
}

// browser is a client with connections of its own.
func (g *target) browser(caller string) *http.Client {
	return &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		DialContext:     from(caller).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: g.ca}, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64,
	}}
}

// call is one request of a caller.
type call struct {
	method, path, kind string
	body               string
	header             map[string]string
}

// answer is what came of a call, with the beginning of its text.
type answer struct {
	status int
	header http.Header
	text   string
}

// send returns the status and what of the answer is worth telling.
func (g *target) send(ctx context.Context, browser *http.Client, caller string, c call) (int, string, error) {
	got, err := g.ask(ctx, browser, caller, c)
	return got.status, got.text, err
}

// ask sends a call and reads its answer to the end.
func (g *target) ask(ctx context.Context, browser *http.Client, caller string, c call) (answer, error) {
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	if c.method == "" {
		c.method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, c.method, g.URL+c.path, body)
	if err != nil {
		return answer{}, err
	}
	if caller != "" {
		request.Header.Set("Authorization", "Bearer "+tokens[caller])
	}
	if c.kind == "" {
		c.kind = "application/json"
	}
	request.Header.Set("Content-Type", c.kind)
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	response, err := browser.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	start, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return answer{}, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return answer{status: response.StatusCode, header: response.Header, text: string(start)}, err
}

// neighbourCalls are what others do meanwhile: a list from memory, a job as the API server has it, and YAML.
var neighbourCalls = []call{
	{path: "/api/v1/jobs?namespace=team"},
	{path: "/api/v1/jobs/quiet?namespace=team"},
	{method: http.MethodPost, path: "/api/v1/validate", body: quoted(training("quiet"))},
}

// latency calls as the neighbour until done, at least so often, and returns how long the slowest of a hundred took.
func (g *target) latency(least int, done <-chan struct{}) time.Duration {
	g.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			browser := g.browser(neighbour)
			defer browser.CloseIdleConnections()
			for i := 0; ; i++ {
				select {
				case <-done:
					if i >= least/2 {
						return
					}
				default:
				}
				began := time.Now()
				status, text, err := g.send(g.Context(), browser, neighbour, neighbourCalls[i%len(neighbourCalls)])
				if err != nil || status != http.StatusOK {
					g.Errorf("the neighbour gets status %d, error %v: %.300s", status, err, text)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				time.Sleep(2 * time.Second / server.DefaultRate)
			}
		})
	}
	group.Wait()
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// closed is done from the beginning.
func closed() <-chan struct{} {
	out := make(chan struct{})
	close(out)
	return out
}

func training(name string) string {
	return fmt.Sprintf("kind: training\njob: {name: %s, namespace: team}\nenvironment: {image: busybox, command: [sleep, \"60\"]}\n"+
		"resources: {gpu: 1, cpu: 1, memory: 1Gi}\n", name)
}

// quoted is a body with YAML in it.
func quoted(text string) string {
	data, _ := yaml.Marshal(map[string]string{"yamlContent": text})
	out, _ := yaml.YAMLToJSON(data) // of a map that was made here
	return string(out)
}
