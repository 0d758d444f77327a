package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// jobStatus reports on stderr how a job progresses: why it waits, then where it runs.
type jobStatus struct {
	factory *Factory
	client  kubernetes.Interface
	line    *statusLine
	// seen is the job's state when it was last diagnosed; lastReported identifies the last printed sentence.
	seen, told string
}

func newJobStatus(f *Factory, client kubernetes.Interface) *jobStatus {
	return &jobStatus{factory: f, client: client, line: newStatusLine(f.IO)}
}

// tell reports the state of a job if it has changed. In a pipe, changed numbers alone do not count: in a busy cluster they change every
// second.
func (n *jobStatus) tell(ctx context.Context, job inventory.Job) {
	seen := fmt.Sprint(job.Status, job.Reason, job.Ready)
	if n.factory.IO.ErrIsTerminal {
		seen += job.Message
	}
	if job.Array != nil {
		seen += job.Array.Progress().String()
	}
	if seen == n.seen {
		return
	}
	n.seen = seen
	text, about := n.sentence(ctx, job)
	if n.factory.IO.ErrIsTerminal || about != n.told {
		n.line.set(text)
	}
	n.told = about
}

// heartbeat monitors the watch behind the status line.
func (n *jobStatus) heartbeat() *heartbeat {
	before := ""
	lost := func(text phrase.Text, _ time.Duration) { before = n.line.set(text.In(n.factory.language())) }
	back := func() { n.line.set(cmp.Or(before, phrase.Of("The cluster answers again").In(n.factory.language()))) }
	return newHeartbeat(n.client, lost, back)
}

// stale shows on the line when the watch becomes stale, and restores the previous text when it recovers.
func (n *jobStatus) stale() func(error) {
	before := ""
	lost := func(text phrase.Text) { before = n.line.set(text.In(n.factory.language())) }
	back := func(text phrase.Text) { n.line.set(cmp.Or(before, text.In(n.factory.language()))) }
	return n.factory.onceLost(lost, back)
}

func (n *jobStatus) end() { n.line.end() }

// sentence describes the state of a job, and identifies it without its numbers.
func (n *jobStatus) sentence(ctx context.Context, job inventory.Job) (text, about string) {
	switch job.Status {
	case inventory.StatusRunning:
		text, about = runs(job).In(n.factory.language()), string(job.Status)
		if job.Array == nil { // an array has too many tasks for a line each
			about = text
		}
		return text, about
	case inventory.StatusSucceeded:
		return phrase.Of("%s has succeeded", job.Name).In(n.factory.language()), string(job.Status)
	case inventory.StatusTerminating:
		return phrase.Of("%s is being deleted", job.Name).In(n.factory.language()), string(job.Status)
	}
	report, err := diagnose(ctx, n.client, job, n.factory)
	if err != nil { // fall back to the reason of the pods
		text := phrase.Of("%s is %s", job.Name, job.Status).And(": %s", reasonIn(job.Trouble, n.factory.language()))
		return text.In(n.factory.language()), string(job.Status) + job.Reason
	}
	language := n.factory.language()
	return phrase.Of("%s is %s", report.Job, report.Status).In(language) + headline(report, language), string(report.Status) + string(report.Cause)
}

// runs says where a job runs, and how far an array has progressed: between two tasks it may have no pod.
func runs(job inventory.Job) phrase.Text {
	text := phrase.Of("%s runs", job.Name)
	if len(job.Nodes) > 0 {
		text = text.And(" on %s", strings.Join(job.Nodes, ", "))
	}
	if job.Array != nil {
		return text.And(", %s", job.Array.Progress())
	}
	return text.And(", %d of %d pods ready", job.Ready, job.Desired)
}

// diagnose explains the state of one job from what the cluster shows.
func diagnose(ctx context.Context, client kubernetes.Interface, job inventory.Job, f *Factory) (diagnosis.Report, error) {
	facts, err := diagnosis.Read(ctx, client, job.Namespace, job.Name, f.Now())
	if err != nil {
		return diagnosis.Report{}, err
	}
	for i := range facts {
		if facts[i].Job.Kind == job.Kind {
			return diagnosis.Diagnose(facts[i]), nil
		}
	}
	return diagnosis.Report{}, &inventory.NotFoundError{Namespace: job.Namespace, Name: job.Name}
}
