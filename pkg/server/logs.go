package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// LogSelection selects output of a job.
type LogSelection struct {
	Tail      int64  `query:"tail" minimum:"0" maximum:"5000" default:"100" doc:"The last lines of each container"`
	Pod       string `query:"pod" maxLength:"253" doc:"Only this pod"`
	Rank      int    `query:"rank" minimum:"-1" default:"-1" doc:"Only the pods of this rank of a job of several nodes"`
	Container string `query:"container" maxLength:"63"`
	Since     string `query:"since" doc:"Nothing older: a time as in RFC 3339, or a duration such as 10m"`
	Grep      string `query:"grep" maxLength:"256" doc:"Only lines that match this regular expression (RE2)"`
}

type logsInput struct {
	JobRef
	LogSelection
	Previous bool   `query:"previous" doc:"The runs before the newest, of containers that restarted"`
	Follow   bool   `query:"follow" doc:"Answer with events until the job has ended"`
	Accept   string `header:"Accept" doc:"text/event-stream, to follow"`
	LastID   string `header:"Last-Event-ID" doc:"The id of the last event you saw, to go on after it"`
}

// LogPage is output of a job that was read at once.
type LogPage struct {
	Logs          []string       `json:"logs" doc:"The lines in the order of time, of all pods"`
	Entries       []joblogs.Line `json:"entries" doc:"The same lines, with time and pod"`
	LastTimestamp *time.Time     `json:"lastTimestamp,omitempty"`
	Message       string         `json:"message,omitempty" doc:"Why there is no output"`
}

// maxLogPage bounds the output of one answer in bytes. Following has no bound.
const maxLogPage = 8 << 20

// answerSize estimates the size of a line in an answer. The line is written twice, a control character takes six bytes, and the source is added.
func answerSize(line joblogs.Line) int {
	size := len(line.Text)
	for i := range len(line.Text) {
		if line.Text[i] < ' ' {
			size += 5
		}
	}
	return 2*size + len(line.Pod) + len(line.Container) + 100
}

// outputWeight is three: output is megabytes that a node sends through the API server.
const outputWeight = 3

func (s *Server) logRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/logs", id: "getJobLogs", tag: "jobs",
		summary: "The output of all pods of a job, at once or as it comes",
		detail: "With follow=true the answer is a stream of server-sent events: `log` carries a line, `state` the job whenever it " +
			"changes, `trouble` a source that cannot be read at the moment, `end` how the job ended. Pods that come later are followed, too. " +
			"Events have ids; a client that comes back with Last-Event-ID gets every line once.",
		fails: []int{http.StatusNotFound, http.StatusConflict, http.StatusBadRequest},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[LogPage](s, "Lines of output, or their events", s.eventStream("LogStreamEvent",
			streamedEvent{"log", joblogs.Line{}}, streamedEvent{"state", JobItem{}}, streamedEvent{"trouble", LogTrouble{}}, streamedEvent{"end", LogEnd{}},
			streamedEvent{"error", Failure{}}))},
		weight: outputWeight,
	}, s.getLogs)
}

func (s *Server) getLogs(ctx context.Context, in *logsInput) (*huma.StreamResponse, error) {
	if in.Follow && !wantsStream(in.Accept) {
		return nil, &refusal{status: http.StatusBadRequest, code: "BadRequest",
			text: "following answers with a stream: send Accept: text/event-stream, or use the WebSocket beside, " + in.JobID + "/logs/ws"}
	}
	options, err := in.streamOptions(s.options.Now())
	if err != nil {
		return nil, err
	}
	query, err := s.locateJob(ctx, in.JobRef)
	if err != nil {
		return nil, err
	}
	options.Namespace, options.Job, options.Follow = query.Namespace, query.Name, in.Follow
	options.Previous = in.Previous
	if in.Follow && in.Previous {
		return nil, invalidErrorf("previous runs have ended and cannot be followed: leave out follow or previous")
	}
	if in.Follow {
		return s.followLogs(ctx, options, in.LastID)
	}
	return s.sendLogs(ctx, options, in.Accept)
}

// sendLogs reads output in a slot of the caller, and keeps the slot until the answer has room among those being sent.
func (s *Server) sendLogs(ctx context.Context, options joblogs.Options, accept string) (*huma.StreamResponse, error) {
	leave, err := acquireSlot(ctx, s.budgets.reading, 1)
	if err != nil {
		return nil, err
	}
	serving.UntilSent(ctx, leave)
	page, err := readLogs(ctx, options)
	if err != nil {
		return nil, err
	}
	kind, body, err := s.encodeAnswer(accept, page)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", kind)
		hctx.SetStatus(http.StatusOK)
		_, _ = hctx.BodyWriter().Write(body) // the client is gone
	}}, nil
}

// streamOptions returns the options of the selection, without a job.
func (in *LogSelection) streamOptions(now time.Time) (joblogs.Options, error) {
	out := joblogs.Options{
		Tail: &in.Tail, Pod: in.Pod, Container: in.Container,
	}
	if in.Rank >= 0 {
		out.Rank = &in.Rank
	}
	var err error
	if in.Grep != "" {
		if out.Match, err = regexp.Compile(in.Grep); err != nil {
			return out, invalidErrorf("grep is no regular expression: %v", err)
		}
	}
	if out.Since, err = parseSince(in.Since, now); err != nil {
		return out, err
	}
	return out, nil
}

func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, invalidErrorf("since is %q, want a time such as 2026-11-01T12:00:00Z or a duration such as 10m", text)
	}
	return at, nil
}

var errTooMuch = errors.New("more output than can be sent at once")

func readLogs(ctx context.Context, options joblogs.Options) (*LogPage, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	page, size := &LogPage{Logs: []string{}, Entries: []joblogs.Line{}}, 0
	_, err = joblogs.Stream(ctx, caller.Streams, options, joblogs.Events{Line: func(line joblogs.Line) error {
		if size += answerSize(line); size > maxLogPage {
			return errTooMuch
		}
		page.Logs, page.Entries = append(page.Logs, line.Text), append(page.Entries, line)
		return nil
	}})
	var none *joblogs.NoOutputError
	switch {
	case errors.As(err, &none):
		page.Message = strings.TrimSpace(fmt.Sprintf("%v. %s", none, none.Job.Message))
		return page, nil
	case errors.Is(err, errTooMuch):
		return nil, invalidErrorf("the answer would be larger than %d bytes: ask for fewer lines with tail, or follow", maxLogPage)
	case err != nil:
		return nil, err
	}
	if last := len(page.Entries) - 1; last >= 0 && !page.Entries[last].Time.IsZero() {
		page.LastTimestamp = &page.Entries[last].Time
	}
	return page, nil
}

func (s *Server) followLogs(ctx context.Context, options joblogs.Options, lastID string) (*huma.StreamResponse, error) {
	follower, err := s.newLogFollower(ctx, options, lastID)
	if err != nil {
		return nil, err
	}
	return s.streamResponse(ctx, follower.checkRights, func(ctx context.Context, out *stream) error {
		defer out.keepAlive(ctx)()
		return follower.followJob(ctx, out.sendEvent)
	})
}
