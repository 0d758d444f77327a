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

// jobStatus tells on stderr how a job gets on: why it waits, then where it starts and runs.
type jobStatus struct {
	factory *Factory
	client  kubernetes.Interface
	line    *statusLine
	// seen is what the job said of itself when it was last looked into, and told what the last sentence was about.
	seen, told string
}

func newJobStatus(f *Factory, client kubernetes.Interface) *jobStatus {
	return &jobStatus{factory: f, client: client, line: newStatusLine(f.IO)}
}

// tell says where a job stands, if that has changed. Numbers alone are no change in a pipe: a busy cluster has others
// every second.
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

// heartbeat looks after the watch that tells of the job.
func (n *jobStatus) heartbeat() *heartbeat {
	before := ""
	lost := func(text phrase.Text, _ time.Duration) { before = n.line.set(text.In(n.factory.language())) }
	back := func() { n.line.set(cmp.Or(before, phrase.Of("The cluster answers again").In(n.factory.language()))) }
	return newHeartbeat(n.client, lost, back)
}

// stale says on the line when the watch that tells of the job gets old, and what it said before when it does not any more.
func (n *jobStatus) stale() func(error) {
	before := ""
	lost := func(text phrase.Text) { before = n.line.set(text.In(n.factory.language())) }
	back := func(text phrase.Text) { n.line.set(cmp.Or(before, text.In(n.factory.language()))) }
	return n.factory.onceLost(lost, back)
}

func (n *jobStatus) end() { n.line.end() }

// sentence is where a job stands, and what that is about: all but the numbers.
func (n *jobStatus) sentence(ctx context.Context, job inventory.Job) (text, about string) {
	switch job.Status {
	case inventory.StatusRunning:
		text, about = runs(job).In(n.factory.language()), string(job.Status)
		if job.Array == nil { // one has too many tasks for a line each
			about = text
		}
		return text, about
	case inventory.StatusSucceeded:
		return phrase.Of("%s has succeeded", job.Name).In(n.factory.language()), string(job.Status)
	case inventory.StatusTerminating:
		return phrase.Of("%s is being deleted", job.Name).In(n.factory.language()), string(job.Status)
	}
	report, err := diagnose(ctx, n.client, job, n.factory)
	if err != nil { // the reason that the pods give is the next best
		text := phrase.Of("%s is %s", job.Name, job.Status).And(": %s", reasonIn(job.Trouble, n.factory.language()))
		return text.In(n.factory.language()), string(job.Status) + job.Reason
	}
	language := n.factory.language()
	return phrase.Of("%s is %s", report.Job, report.Status).In(language) + headline(report, language), string(report.Status) + string(report.Cause)
}

// runs says where a job runs, and how far an array has come: between two tasks it may have no pod.
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

// diagnose finds out why one job is where it is, from what the cluster shows.
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
