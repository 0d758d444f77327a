package controller

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// mailbox is a receiver of webhooks: what is posted to /well it keeps, and at other paths it misbehaves.
type mailbox struct {
	*httptest.Server
	// certificate is the file with what its callers have to trust.
	certificate string

	mu    sync.Mutex
	texts []string
	// ill is how often /ill fails before it keeps what is posted.
	ill map[string]int
}

var receiver = &mailbox{ill: map[string]int{}}

// open starts the receiver, and has channels lead to it. It lives as long as the tests.
func (m *mailbox) open(ctx context.Context) error {
	m.Server = httptest.NewTLSServer(m)
	file, err := os.CreateTemp("", "receiver-*.pem")
	if err != nil {
		return err
	}
	m.certificate = file.Name()
	if err := pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	lists := cluster.Client.CoreV1().ConfigMaps("kube-system")
	policy, err := lists.Get(ctx, names.PolicyConfigMap, metav1.GetOptions{})
	if err != nil {
		return err
	}
	policy.Data["channels.foreign"] = "kube-system"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.ChannelSecret}, StringData: map[string]string{"foreign": m.URL + "/well"}}
	for _, channel := range []string{"well", "ill", "slow", "elsewhere"} {
		policy.Data["channels."+channel], secret.StringData[channel] = "*", m.URL+"/"+channel+"/SECRET"
	}
	if _, err := lists.Update(ctx, policy, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = cluster.Client.CoreV1().Secrets("kube-system").Create(ctx, secret, metav1.CreateOptions{})
	return err
}

func (m *mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var letter map[string]string
	if err != nil || json.Unmarshal(body, &letter) != nil || len(letter) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/slow"):
		<-r.Context().Done()
		return
	case strings.HasPrefix(r.URL.Path, "/elsewhere"):
		http.Redirect(w, r, "/well", http.StatusTemporaryRedirect)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/ill") && m.ill[letter["text"]] == 0 {
		m.ill[letter["text"]]++
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	m.texts = append(m.texts, letter["text"])
}

// got are the letters that begin with a text.
func (m *mailbox) got(beginning string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.texts), func(text string) bool { return !strings.HasPrefix(text, beginning) })
}

// tells submits a job that tells a channel of all that happens to it, whose pods have annotations.
func (e *env) tells(name, channel string, pod map[string]string) {
	e.Helper()
	objects := e.rendered(fmt.Sprintf("name: %s, retries: 0, notify: {channel: %s, on: [succeeded, failed, cancelled, evicted]}", name, channel))
	objects[0].(*batchv1.Job).Spec.Template.Annotations = pod
	if err := e.writer().Create(e.Context(), objects); err != nil {
		e.Fatal(err)
	}
}

func (e *env) eventuallyTold(beginning string) {
	e.Helper()
	beginning = fmt.Sprintf(beginning, e.Namespace)
	e.Eventually("a letter: "+beginning, func(context.Context) (bool, error) { return len(receiver.got(beginning)) > 0, nil })
}

// notTold waits until a job says why its channel was not told.
func (e *env) notTold(name string) string {
	e.Helper()
	var why string
	e.Eventually(name+" to say that its channel was not told", func(context.Context) (bool, error) {
		why = e.job(name).Annotations[names.AnnotationNotifyFailed]
		return why != "", nil
	})
	if strings.Contains(why, "SECRET") || strings.Contains(why, receiver.URL) {
		e.Errorf("it says where the channel leads: %s", why)
	}
	return why
}

// TestAChannelIsToldHowJobsGo: of their ends, of an eviction, and by one that was ill at first; while another is silent.
func TestAChannelIsToldHowJobsGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tells("silent", "slow", map[string]string{sandbox.AnnotationFailAfter: "1s"})
	e.tells("bad", "well", map[string]string{sandbox.AnnotationFailAfter: "1s"})
	e.tells("good", "ill", map[string]string{sandbox.AnnotationRunFor: "1s"})
	e.tells("long", "well", nil)
	e.eventuallyTold("Job %s/bad failed after ")
	e.eventuallyTold("Job %s/good succeeded after ")
	e.Evict(e.Running("long", 1)[0])
	e.eventuallyTold("Job %s/long lost the places of a pod (EvictionByEvictionAPI), and starts again by itself")
	ref := submit.Ref{Namespace: e.Namespace, Name: "long"}
	if _, err := e.writer().Cancel(e.Context(), ref, submit.StepOptions{Now: e.job("long").CreationTimestamp.Time}); err != nil {
		t.Fatal(err)
	}
	e.eventuallyTold("Job %s/long was cancelled")
	e.Eventually("bad to be noted as told", func(context.Context) (bool, error) {
		job := e.job("bad")
		return job.Annotations[names.AnnotationNotified] == string(job.UID)+"/failed", nil
	})
}

// TestAChannelThatCannotBeTold: its job says so, before it ends where that is known, and not where the channel leads.
func TestAChannelThatCannotBeTold(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tells("slip", "wel", nil)
	e.tells("theirs", "foreign", nil)
	e.tells("moved", "elsewhere", map[string]string{sandbox.AnnotationFailAfter: "1s"})
	for name, want := range map[string]string{
		"slip": `there is no channel "wel" for jobs of namespace ` + e.Namespace, "theirs": `there is no channel "foreign"`,
		"moved": "it answered 307, to go elsewhere, which is not done",
	} {
		if why := e.notTold(name); !strings.HasPrefix(why, want) {
			t.Errorf("%s says %q, want %q", name, why, want)
		}
	}
	e.Eventually("an event of each", func(ctx context.Context) (bool, error) {
		events, err := cluster.Client.EventsV1().Events(e.Namespace).List(ctx, metav1.ListOptions{})
		seen := map[string]bool{}
		for _, event := range events.Items {
			if event.Reason == "NotTold" {
				seen[event.Regarding.Name] = true
			}
			if strings.Contains(event.Note, "SECRET") {
				t.Errorf("an event says where a channel leads: %s", event.Note)
			}
		}
		return len(seen) == 3, err
	})
	if got := receiver.got("Job " + e.Namespace + "/"); len(got) > 0 {
		t.Errorf("it was told %q, want nothing", got)
	}
}

// TestANewLeaderTellsNothingTwice, and what the one before did not come to.
func TestANewLeaderTellsNothingTwice(t *testing.T) {
	e := newEnv(t)
	e.tells("first", "well", map[string]string{sandbox.AnnotationFailAfter: "1s"})
	e.Eventually("first to be noted as told", func(context.Context) (bool, error) {
		return e.job("first").Annotations[names.AnnotationNotified] != "", nil
	})
	if err := controller.Kill(); err != nil {
		t.Fatal(err)
	}
	e.tells("second", "well", map[string]string{sandbox.AnnotationFailAfter: "1s"})
	e.Eventually("second to fail", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.Status("second").Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailed }), nil
	})
	var err error
	if controller, err = startController(t.Context(), fmt.Sprintf("controller-%d", controllers.Add(1))); err != nil {
		t.Fatal(err)
	}
	e.eventuallyTold("Job %s/second failed")
	for _, name := range []string{"first", "second"} {
		if got := receiver.got(fmt.Sprintf("Job %s/%s ", e.Namespace, name)); len(got) != 1 {
			t.Errorf("of %s it was told %q, want one letter", name, got)
		}
	}
}
