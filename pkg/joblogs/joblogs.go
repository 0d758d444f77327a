// Package joblogs streams the output of a job: of all its pods, including failed and future ones, line by line, each with its pod. It serves the
// command line and the API alike.
//
// [Stream] reads the existing output, ordered by time, or follows the job until it ends. Following survives a broken connection: it continues where
// it stopped, and delivers every line once.
package joblogs

import (
	"context"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// DefaultMaxStreams is the default number of containers that are read at a time.
const DefaultMaxStreams = 128

// Options select the output to read.
type Options struct {
	Namespace string
	Job       string
	// Follow continues until the job has ended, including pods that start later.
	Follow bool
	// Previous reads the runs before the latest restart of containers. It cannot be followed.
	Previous bool
	// Tail is the number of last lines of each container to read, nil for all. Pods that start later are read completely.
	Tail *int64
	// Since excludes older lines; zero excludes nothing.
	Since time.Time
	// Pod is the only pod to read, "" for all.
	Pod string
	// Rank is the rank of the only pods to read, nil for all.
	Rank *int
	// Container is the container to read of each pod, "" for the first one that is not an init container.
	Container string
	// Match excludes lines that it does not match; nil excludes none.
	Match *regexp.Regexp
	// MaxStreams bounds the containers read at a time, 0 for [DefaultMaxStreams].
	MaxStreams int
}

func (o *Options) jobQuery() inventory.JobQuery {
	return inventory.JobQuery{Namespace: o.Namespace, Name: o.Job, Foreign: true}
}

func (o *Options) maxStreams() int {
	if o.MaxStreams == 0 {
		return DefaultMaxStreams
	}
	return o.MaxStreams
}

// Source is the origin of a line. JSON keys are a contract.
type Source struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Rank is the pod's rank in a job of several nodes, nil in every other job.
	Rank *int `json:"rank,omitempty"`
	// Again says that an earlier pod of the same rank failed.
	Again bool `json:"again,omitempty"`
}

// Line is one line of output. JSON keys are a contract.
type Line struct {
	Source
	// Time is when the node read the line. It is zero for the rest of a split line.
	Time time.Time `json:"time"`
	Text string    `json:"text"`
	// Cut says that the line is longer than [MaxLine], and continues in the next one of its source.
	Cut bool `json:"cut,omitempty"`
}

// MaxLine is the size in bytes at which a line is split into pieces, including its time: a container can print gigabytes without a line break.
// Nothing is lost.
const MaxLine = 16 << 10

// Events are callbacks. Nil functions are not called; no two are called at the same time.
type Events struct {
	// Line is called with every line; its error ends the stream.
	Line func(Line) error
	// State is called with the job before its first line, and on every change while following.
	State func(inventory.Job)
	// Trouble is called when a source cannot be read; following retries it.
	Trouble func(Source, error)
}

// NoOutputError says that a job has no output to read, and contains the state of the job.
type NoOutputError struct {
	Job inventory.Job
	// Previous says that earlier runs were requested.
	Previous bool
	// Rank is the only requested rank, nil for all.
	Rank *int
}

func (e *NoOutputError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NoOutputError) Message() phrase.Text {
	if e.Previous {
		return phrase.Textf("no container of job %s has restarted", e.Job.Name)
	}
	if e.Rank != nil && e.Job.Array != nil {
		return phrase.Textf("task %d of job %s has no output: it has not begun, or its pod is gone; %s", *e.Rank, e.Job.Name, e.Job.Array.ProgressText())
	}
	return phrase.Textf("job %s has no output: it is %s", e.Job.Name, e.Job.Status)
}

// SelectionError says that the options select a pod, rank or container that the job does not have.
type SelectionError struct{ Text phrase.Text }

func (e *SelectionError) Error() string { return e.Text.String() }

// Message implements [phrase.LocalizedError].
func (e *SelectionError) Message() phrase.Text { return e.Text }

// TooManyError says that a job has more containers than may be read at a time.
type TooManyError struct {
	Job        string
	Containers int
	Max        int
}

func (e *TooManyError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *TooManyError) Message() phrase.Text {
	return phrase.Textf("job %s has the output of %d containers, more than the %d that may be read at a time",
		e.Job, e.Containers, e.Max)
}

// Jobs provides the state of jobs and its changes: an [inventory.Reader], or a cache.
type Jobs interface {
	Job(ctx context.Context, namespace, name string) (inventory.Job, error)
	WatchJobs(ctx context.Context, query inventory.JobQuery, changed func([]inventory.Job)) error
}

// Stream reads the output that the options select and returns the last known state of the job. It returns nil when all was read: at once, or when the
// job has ended while following. A job deleted meanwhile is Terminating.
func Stream(ctx context.Context, client kubernetes.Interface, o Options, events Events) (inventory.Job, error) {
	return StreamWithJobs(ctx, client, inventory.NewReader(client), o, events)
}

// StreamWithJobs is Stream for callers with their own source of job states.
func StreamWithJobs(ctx context.Context, client kubernetes.Interface, jobs Jobs, o Options, events Events) (inventory.Job, error) {
	reader := &reader{client: client, options: o, events: events}
	if o.Follow {
		return followLogs(ctx, reader, jobs)
	}
	job, err := jobs.Job(ctx, o.Namespace, o.Job)
	if err != nil {
		return job, err
	}
	runs, err := selectRuns(job, &o)
	if err == nil && len(runs) == 0 {
		err = &NoOutputError{Job: job, Previous: o.Previous, Rank: o.Rank}
	}
	if err != nil {
		return job, err
	}
	reader.emitState(job)
	return job, reader.mergeLogs(ctx, runs)
}

// podNames lists the pods of a job for an error.
func podNames(job inventory.Job) phrase.Text {
	if len(job.Pods) == 0 {
		return phrase.Textf("it has none")
	}
	out := make([]string, len(job.Pods))
	for i, pod := range job.Pods {
		out[i] = pod.Name
	}
	return phrase.Textf("its pods are %s", strings.Join(out, ", "))
}
