package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// programStreams are what a program in a container has.
type programStreams struct {
	in          io.Reader
	out, errOut io.Writer
	sizes       <-chan remotecommand.TerminalSize
}

// oneJob is an API server with one job of one pod, and the kubelet that runs the job's program for who attaches to it.
type oneJob struct {
	// program returns its exit code. A negative one breaks the connection, and the program goes on.
	program func(programStreams) int
	// end changes the pod when the program ends; nil lets it end with the program's exit code.
	end func(pod *corev1.Pod, code int32)
	// refuse answers who attaches with an error.
	refuse *apierrors.StatusError
	// noSocket does not understand WebSocket, as API servers before 1.30.
	noSocket bool
	// rights is what the user may; nil for an API server that does not tell.
	rights *authorizationv1.SubjectAccessReviewStatus
	// output is what the program has written before anybody was connected, and late what it writes until they are.
	output, late string
	// watched is called when somebody waits for a change, and read when somebody reads the pod, before the answer.
	watched, read func()

	mu  sync.Mutex
	pod *corev1.Pod // nil once it is gone
	job *batchv1.Job
	at  *url.URL
}

// newOneJob returns one with a job sft that runs in the namespace team.
func newOneJob(t *testing.T) *oneJob {
	t.Helper()
	meta := metav1.ObjectMeta{
		Name: "sft", Namespace: "team", UID: "job-1",
		Labels: map[string]string{names.LabelJob: "sft", names.LabelJobType: "training", names.LabelManagedBy: names.ManagedByGpuctl},
	}
	spec := corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "i", Stdin: true}}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: spec, Status: corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}}
	pod.Name, pod.UID = "sft-abcde", "pod-1"
	return &oneJob{
		pod: pod, job: &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
		program: func(programStreams) int { return 0 },
	}
}

// serve starts the API server, and returns a factory for it.
func (j *oneJob) serve(t *testing.T, streams IOStreams) *Factory {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	server := httptest.NewUnstartedServer(j)
	type connKey struct{}
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.serveTo(w, r, r.Context().Value(connKey{}).(net.Conn))
	})
	server.Start()
	t.Cleanup(server.Close)
	j.at, _ = url.Parse(server.URL)
	f := NewFactory(streams)
	f.overrides.Context.Namespace = "team"
	f.config = func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }
	return f
}

// ServeHTTP implements http.Handler, for requests that need no connection of their own.
func (j *oneJob) ServeHTTP(w http.ResponseWriter, r *http.Request) { j.serveTo(w, r, nil) }

func (j *oneJob) serveTo(w http.ResponseWriter, r *http.Request, conn net.Conn) {
	j.mu.Lock()
	pod := j.pod.DeepCopy()
	j.mu.Unlock()
	query := r.URL.Query()
	switch path := r.URL.Path; {
	case query.Get("watch") != "" && query.Get("sendInitialEvents") == "":
		if j.watched != nil {
			j.watched()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(path, "/attach"):
		j.serveAttach(w, r, conn)
	case strings.HasSuffix(path, "/log"):
		j.mu.Lock()
		defer j.mu.Unlock()
		_, _ = io.WriteString(w, j.output)
		j.output, j.late = j.output+j.late, ""
	case strings.HasSuffix(path, "/pods/sft-abcde") && pod != nil:
		if j.read != nil {
			j.read()
			<-r.Context().Done()
			return
		}
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, pod)
	case strings.HasSuffix(path, "/pods"):
		list := &corev1.PodList{}
		if pod != nil {
			list.Items = append(list.Items, *pod)
		}
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, list)
	case strings.HasSuffix(path, "/jobs"):
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}, &batchv1.JobList{Items: []batchv1.Job{*j.job}})
	case strings.HasSuffix(path, "/deployments"):
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}, &appsv1.DeploymentList{})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews") && j.rights != nil:
		answer(w, http.StatusCreated, &metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			&authorizationv1.SelfSubjectAccessReview{Status: *j.rights})
	case strings.HasSuffix(path, "/events"):
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, &corev1.EventList{})
	case strings.HasSuffix(path, "/resourcequotas"):
		answer(w, http.StatusOK, &metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuotaList"}, &corev1.ResourceQuotaList{})
	default:
		status := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, path).Status()
		answer(w, http.StatusNotFound, &metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, &status)
	}
}

// answer writes an object as an API server does, with its kind.
func answer(w http.ResponseWriter, code int, kind *metav1.TypeMeta, object any) {
	fields := map[string]any{}
	for _, part := range []any{object, kind} {
		text, _ := json.Marshal(part) // these are Kubernetes' own types
		_ = json.Unmarshal(text, &fields)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(fields)
}

func (j *oneJob) serveAttach(w http.ResponseWriter, r *http.Request, conn net.Conn) {
	asked := func(stream string) bool { return r.URL.Query().Get(stream) == "true" }
	options := &remotecommand.Options{Stdin: asked("stdin"), Stdout: asked("stdout"), Stderr: asked("stderr"), TTY: asked("tty")}
	socket := wsstream.IsWebSocketRequest(r)
	switch {
	case j.refuse != nil:
		answer(w, int(j.refuse.ErrStatus.Code), &metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, &j.refuse.ErrStatus)
	case socket && j.noSocket:
		http.Error(w, "no such stream", http.StatusBadRequest)
	case socket: // what an API server does with it: WebSocket to the user, SPDY to the kubelet
		kubelet := *r.URL
		kubelet.Scheme, kubelet.Host = j.at.Scheme, j.at.Host
		streams := proxy.Options{Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr, Tty: options.TTY}
		proxy.NewStreamTranslatorHandler(&kubelet, http.DefaultTransport, 0, streams).ServeHTTP(w, r)
	default:
		remotecommand.ServeAttach(w, r, &attacher{j, conn}, "sft-abcde", "", "main", options,
			time.Hour, time.Minute, remotecommandconsts.SupportedStreamingProtocols)
	}
}

// attacher runs the program for one connection.
type attacher struct {
	*oneJob
	conn net.Conn
}

// AttachContainer implements remotecommand.Attacher.
func (a *attacher) AttachContainer(
	_ context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser, _ bool, sizes <-chan remotecommand.TerminalSize,
) error {
	code := a.program(programStreams{in: in, out: out, errOut: errOut, sizes: sizes})
	if code < 0 {
		return a.conn.Close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == nil {
		a.end = endPod
	}
	a.end(a.pod, int32(code))
	if a.pod.Name == "" { // it has removed it
		a.pod = nil
	}
	return nil
}

// endPod ends the container of a pod.
func endPod(pod *corev1.Pod, code int32) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}
