package server

import (
	"context"
	"errors"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// Limits of followed output for each caller, in bytes per second over all its streams: a container can print as fast as it is read.
const (
	outputRate  = 4 << 20
	outputBurst = 1 << 20
)

// sender sends one event to a client over any transport.
type sender func(event, id string, data any) error

// logFollower follows the output of a job for one client.
type logFollower struct {
	server  *Server
	caller  *access.Caller
	jobs    joblogs.Jobs
	options joblogs.Options
	cursor  *logCursor
}

// LogEnd is the last event of a stream, after the job has ended.
type LogEnd struct {
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty" doc:"Of the container that ended last"`
}

// LogTrouble is a container whose output cannot be read for a while.
type LogTrouble struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Error     string `json:"error"`
}

// newLogFollower reads the job once, so that a missing or forbidden job results in an error answer and not in a stream.
func (s *Server) newLogFollower(ctx context.Context, options joblogs.Options, lastID string) (*logFollower, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	follower := &logFollower{server: s, caller: caller, cursor: newLogCursor(lastID)}
	if err := checkLogRights(ctx, caller, options.Namespace); err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.opening, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	query := inventory.JobQuery{Namespace: options.Namespace, Name: options.Job, Foreign: true}
	follower.jobs = s.jobSource(query, inventory.NewReader(caller.Kubernetes))
	if _, err := follower.jobs.Job(ctx, options.Namespace, options.Job); err != nil {
		return nil, err
	}
	if since := follower.cursor.resumeTime(); !since.IsZero() {
		options.Since, options.Tail = since, nil
	}
	follower.options = options
	return follower, nil
}

// checkRights checks the rights to what is followed.
func (f *logFollower) checkRights(ctx context.Context) error {
	return checkLogRights(ctx, f.caller, f.options.Namespace)
}

// checkLogRights checks the rights to the jobs of a namespace and to the output of its pods. The API server checks them only when a log is opened.
func checkLogRights(ctx context.Context, caller *access.Caller, namespace string) error {
	if err := caller.CheckListRight(ctx, namespace, jobResources...); err != nil {
		return err
	}
	return caller.CheckRight(ctx, "get", namespace, logResource)
}

// followJob sends events until the job has ended, including the end event.
func (f *logFollower) followJob(ctx context.Context, send sender) error {
	job, err := joblogs.StreamWithJobs(ctx, f.caller.Streams, f.jobs, f.options, joblogs.Events{
		Line: func(line joblogs.Line) error {
			if !f.cursor.acceptLine(line) {
				return nil
			}
			if err := f.server.output.bucketFor(f.caller.User.GetName(), 1).WaitN(ctx, min(answerSize(line), outputBurst)); err != nil {
				return err //nolint:wrapcheck // ctx has ended, and says why
			}
			return send("log", f.cursor.encodeID(), line)
		},
		State: func(job inventory.Job) { _ = send("state", "", jobItem(ctx, &job, f.server.options.Now())) },
		Trouble: func(source joblogs.Source, err error) {
			_ = send("trouble", "", LogTrouble{Pod: source.Pod, Container: source.Container, Error: err.Error()})
		},
	})
	var none *joblogs.NoOutputError
	switch {
	case errors.As(err, &none): // the job ended without output
		job = none.Job
	case err != nil:
		return err
	}
	return send("end", "", jobEnd(&job))
}

func jobEnd(job *inventory.Job) LogEnd {
	out := LogEnd{Status: string(job.Status), Reason: job.Reason, Message: job.Message}
	for i := range job.Pods {
		if job.Pods[i].ExitCode != nil {
			out.ExitCode = job.Pods[i].ExitCode
		}
	}
	return out
}
