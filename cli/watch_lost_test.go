package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How many watches tell of jobs, and of nodes and pools.
const (
	watchesOfJobs  = 4
	watchesOfFleet = 3
)

// emptyCluster is an API server of a cluster that has nothing, and refuses requests as told.
type emptyCluster struct {
	kubeconfig string

	mu      sync.Mutex
	lists   *apierrors.StatusError
	watches *apierrors.StatusError
	open    int
	// hidden is a kind of objects that the user has no right to.
	hidden string
	// changed is closed when the answers have: watches end then.
	changed chan struct{}
}

func newEmptyCluster(t *testing.T) *emptyCluster {
	t.Helper()
	c := &emptyCluster{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), changed: make(chan struct{})}
	server := httptest.NewServer(c)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	kubeconfig := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: '%s'}}], "+
		"contexts: [{name: c, context: {cluster: c, namespace: lab, user: u}}], users: [{name: u, user: {token: t}}]}", server.URL)
	if err := os.WriteFile(c.kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer has lists and watches answered so from now on, nil for as they should be.
func (c *emptyCluster) answer(lists, watches *apierrors.StatusError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.watches = lists, watches
	close(c.changed)
	c.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (c *emptyCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refused, changed := c.lists, c.changed
	watches := r.URL.Query().Get("watch") != ""
	switch {
	case watches && c.watches != nil:
		refused = c.watches
	case watches && r.URL.Query().Get("sendInitialEvents") != "":
		refused = apierrors.NewBadRequest("lists are lists here")
	case watches:
		refused = nil
	}
	if kind := path.Base(r.URL.Path); kind == c.hidden {
		refused = forbidden("list")
	}
	c.mu.Unlock()
	if r.URL.Path == "/version" {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if refused != nil {
		w.WriteHeader(int(refused.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(refused.ErrStatus)
		return
	}
	if !watches {
		fmt.Fprintf(w, `{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": "1"}, "items": []}`, listKinds[path.Base(r.URL.Path)], versionOf(r.URL.Path))
		return
	}
	c.opened(1)
	defer c.opened(-1)
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-changed:
	}
}

func (c *emptyCluster) opened(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += more
}

// waitForWatches waits until so many watches are open.
func (c *emptyCluster) waitForWatches(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		open := c.open
		c.mu.Unlock()
		if open >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are open, want %d", open, want)
		}
	}
}

var listKinds = map[string]string{
	"jobs": "JobList", "pods": "PodList", "deployments": "DeploymentList", "events": "EventList", "nodes": "NodeList",
	"gpupools": "GPUPoolList", "resourcequotas": "ResourceQuotaList",
}

func versionOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if parts[0] == "api" {
		return parts[1]
	}
	return parts[1] + "/" + parts[2]
}

func forbidden(verb string) *apierrors.StatusError {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", fmt.Errorf("user u cannot %s it", verb))
	err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return err
}

func internal() *apierrors.StatusError {
	err := apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
	err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return err
}

// heard is what a program has written so far.
type heard struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (h *heard) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out.Write(data)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out.String()
}

func (h *heard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out.Reset()
}

func (h *heard) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(h.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was not said, but\n%s", text, h)
		}
	}
}

// TestAWatchThatIsRefusedEnds: nothing would ever be told.
func TestAWatchThatIsRefusedEnds(t *testing.T) {
	tests := map[string]struct {
		args    []string
		refused *apierrors.StatusError
		says    string
	}{
		"no right to watch":       {[]string{"get", "jobs", "-w"}, forbidden("watch"), "error: you have no right to watch "},
		"no right to watch nodes": {[]string{"get", "nodes", "-w"}, forbidden("watch"), "error: you have no right to watch "},
		"logged out":              {[]string{"get", "jobs", "-w"}, apierrors.NewUnauthorized("Unauthorized"), "log in again"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newEmptyCluster(t)
			c.answer(nil, tc.refused)
			t.Setenv("KUBECONFIG", c.kubeconfig)
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			streams, _, stderr := TestIOStreams("")
			if code := Run(ctx, NewFactory(streams), append([]string{"gpuctl"}, tc.args...)); code != exitForbidden || !strings.Contains(stderr.String(), tc.says) {
				t.Errorf("exit code %d and\n%s\nwant %d and %q", code, stderr, exitForbidden, tc.says)
			}
		})
	}
}

// TestAWatchSaysWhenItIsOld, and goes on by itself.
func TestAWatchSaysWhenItIsOld(t *testing.T) {
	c := newEmptyCluster(t)
	t.Setenv("KUBECONFIG", c.kubeconfig)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	streams, _, _ := TestIOStreams("")
	var stderr heard
	streams.ErrOut = &stderr
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, NewFactory(streams), []string{"gpuctl", "get", "jobs", "-w"}) }()
	c.waitForWatches(t, watchesOfJobs)
	for range 2 {
		c.answer(internal(), internal())
		stderr.waitFor(t, "What was told may be old, it is as of ")
		stderr.waitFor(t, "etcd has no leader; trying again\n")
		c.answer(nil, nil)
		stderr.waitFor(t, "All of it is as it is now again\n")
		stderr.forget()
	}
	end()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("it ended with %d, and said\n%s", code, &stderr)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it does not end, and has said\n%s", &stderr)
	}
}

// TestAWatchWithoutTheRightToEvents tells what it may see, and that nothing is in the way.
func TestAWatchWithoutTheRightToEvents(t *testing.T) {
	c := newEmptyCluster(t)
	c.hidden = "events"
	t.Setenv("KUBECONFIG", c.kubeconfig)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	streams, _, _ := TestIOStreams("")
	var stderr heard
	streams.ErrOut = &stderr
	ended := make(chan int, 1)
	go func() { ended <- Run(ctx, NewFactory(streams), []string{"gpuctl", "get", "jobs", "-w"}) }()
	c.waitForWatches(t, watchesOfJobs-1)
	c.answer(internal(), internal()) // which is told of what it may see
	stderr.waitFor(t, "What was told may be old, it is as of ")
	end()
	if code := <-ended; code != exitOK || strings.Contains(stderr.String(), "right") {
		t.Errorf("it ended with %d, and said\n%s", code, &stderr)
	}
}

// TestWaitingSaysWhenItsWatchIsOld, and what it waits for again when it is not any more.
func TestWaitingSaysWhenItsWatchIsOld(t *testing.T) {
	streams, _, stderr := TestIOStreams("")
	story := newJobStatus(NewFactory(streams), nil)
	defer story.endLine()
	story.line.setText("sft is Pending")
	tell := story.staleReporter()
	for range 2 {
		tell(errors.New("etcd has no leader"))
	}
	tell(nil)
	said := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(said) != 3 || !strings.HasPrefix(said[1], "What was told may be old, it is as of ") || said[0] != said[2] {
		t.Errorf("it said %q, want what it waits for, that this may be old once, and what it waits for", said)
	}
}

// TestUISaysWhenItIsOld shows in the last line what is in the way, and of when the rest is.
func TestUISaysWhenItIsOld(t *testing.T) {
	tests := map[string]struct {
		lists, watches *apierrors.StatusError
		says           string
	}{
		"no right to watch": {nil, forbidden("watch"), "right"},
		"no right to list":  {forbidden("list"), forbidden("watch"), "right"},
		"logged out":        {apierrors.NewUnauthorized("no"), apierrors.NewUnauthorized("no"), "again"},
		"something else":    {internal(), internal(), "leader"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newEmptyCluster(t)
			u := newUITerminalOf(t, c.kubeconfig)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan error, 1)
			go func() { ended <- runUI(ctx, u.options) }()
			u.sees("found.") // blanks are not drawn
			c.waitForWatches(t, watchesOfJobs+watchesOfFleet)
			c.answer(tc.lists, tc.watches)
			u.sees(tc.says)
			u.sees("last")
			end()
			u.ends(ended)
		})
	}
}
