package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/gorilla/websocket"

	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// LogMessage is a WebSocket message of a job's output. Type and Data of a line are as in the first gpuctl.
type LogMessage struct {
	Type string      `json:"type" enum:"log,state,trouble,end,error" doc:"What the message is about"`
	Data any         `json:"data" doc:"Of log the text of the line, of state a JobItem, of error a Failure; of trouble which pod cannot be read, and of end how the job ended"`
	ID   string      `json:"id,omitempty" doc:"Of log: what to send as lastEventId to go on after it"`
	Line *LineOrigin `json:"line,omitempty" doc:"Of log: when and from where the line is"`
}

// LineOrigin is the time and source of an output line.
type LineOrigin struct {
	joblogs.Source
	Time time.Time `json:"time"`
}

type logSocketInput struct {
	JobRef
	LogSelection
	LastID string `query:"lastEventId" doc:"The id of the last message you saw, to go on after it"`
}

const (
	// logProtocol is the WebSocket subprotocol of these messages, for clients that must name one.
	logProtocol = "logs.g8s.host"
	// tokenProtocol is the prefix of the subprotocol that carries a browser's token.
	tokenProtocol = "base64url.bearer.authorization.k8s.io."
	// pongTimeout is how long a client may leave pings unanswered.
	pongTimeout = 3 * heartbeatInterval
	// maxFromClient bounds a client message. Clients have nothing to send.
	maxFromClient = 4 << 10
	// maxReason is the protocol's limit for a close reason.
	maxReason = 123
	// closeTimeout is how long the server waits for the client's close message.
	closeTimeout = 2 * time.Second
)

func (s *Server) logSocketRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/logs/ws", id: "followJobLogs", tag: "jobs",
		status:  http.StatusSwitchingProtocols,
		summary: "Follow the output of all pods of a job on a WebSocket",
		detail: "Each message is a LogMessage in JSON: `log` carries a line, `state` the job whenever it changes, `trouble` a source that " +
			"cannot be read at the moment, `end` how the job ended; then the server closes. A browser, which can set no header, offers two " +
			"subprotocols: " + logProtocol + ", and " + tokenProtocol + "TOKEN with the token in base64url. Its origin must be one of those " +
			"that may call. Answered with 426 when the request is no WebSocket.",
		fails: []int{http.StatusNotFound, http.StatusConflict, http.StatusBadRequest, http.StatusUpgradeRequired},
		replies: map[int]*huma.Response{
			http.StatusSwitchingProtocols: jsonReply[LogMessage](s, "A WebSocket whose messages are these"),
		}, weight: outputWeight}, s.followLogsOnSocket)
}

func (s *Server) followLogsOnSocket(ctx context.Context, in *logSocketInput) (*huma.StreamResponse, error) {
	options, err := in.streamOptions(s.options.Now())
	if err != nil {
		return nil, err
	}
	query, err := s.locateJob(ctx, in.JobRef)
	if err != nil {
		return nil, err
	}
	options.Namespace, options.Job, options.Follow = query.Namespace, query.Name, true
	follower, err := s.newLogFollower(ctx, options, in.LastID)
	if err != nil {
		return nil, err
	}
	leave, err := s.open.openStream(ctx)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		s.sockets.Add(1)
		defer s.sockets.Done()
		r, w := humago.Unwrap(hctx)
		connection, err := s.newUpgrader().Upgrade(w, r, nil)
		if err != nil {
			return // the upgrader has answered
		}
		w.Header().Set("Upgrade", "websocket") // only for the metrics: the answer bypassed this writer
		ctx, cancel := s.streamContext(r.Context(), follower.checkRights)
		defer cancel()
		s.serveSocket(ctx, &socket{connection: connection}, hctx.Operation().OperationID, follower)
	}}, nil
}

// newUpgrader returns an upgrader to WebSocket that answers failures in our format.
func (s *Server) newUpgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		HandshakeTimeout: eventTimeout,
		Subprotocols:     []string{logProtocol},
		CheckOrigin:      s.isOriginAllowed,
		Error: func(w http.ResponseWriter, r *http.Request, status int, reason error) {
			text := strings.TrimPrefix(reason.Error(), "websocket: ")
			switch {
			case status == http.StatusForbidden:
				text = "pages of this origin may not call: --cors-origin lists those that may"
			case !websocket.IsWebSocketUpgrade(r):
				status = http.StatusUpgradeRequired
				text = "this route is a WebSocket: connect with a client of such, over HTTP/1.1, or follow /logs?follow=true, " +
					"which needs none"
				w.Header().Set("Upgrade", "websocket")
			}
			writeFailure(w, r, &refusal{status: status, code: codeOf(status), text: text})
		},
	}
}

// isOriginAllowed accepts programs, which send no origin, pages of this server, and pages of the listed origins. Browsers do not check before they open a
// WebSocket, so without this any page could connect.
func (s *Server) isOriginAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.ContainsFunc(s.options.Origins, func(o string) bool { return strings.TrimSuffix(o, "/") == origin }) {
		return true
	}
	parsed, err := url.Parse(origin)
	return err == nil && strings.EqualFold(parsed.Host, r.Host)
}

// serveSocket follows the output until the job has ended and closes the socket with the reason.
func (s *Server) serveSocket(ctx context.Context, k *socket, operation string, follower *logFollower) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := k.readUntilGone(cancel)
	stop := k.keepAlive(ctx)
	err := follower.followJob(ctx, k.sendMessage)
	stop()
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		k.closeWithReason(websocket.CloseNormalClosure, "the job has ended", gone)
	case errors.Is(cause, errStopping):
		k.closeWithReason(websocket.CloseGoingAway, errStopping.text, gone)
	case errors.Is(cause, errTokenEnded), errors.Is(cause, errSessionOver), errors.As(cause, new(*access.DeniedError)), errors.As(cause, new(*access.ActingError)):
		k.closeWithReason(websocket.ClosePolicyViolation, cause.Error(), gone)
	case cause != nil, errors.Is(err, errClientGone):
		k.closeWithReason(websocket.CloseNormalClosure, "", gone)
	default:
		failed := failureFromError(ctx, err)
		s.logFailure(ctx, failed, operation, err)
		_ = k.sendMessage("error", "", failed) // the close message has the same reason
		k.closeWithReason(websocket.CloseInternalServerErr, failed.Message, gone)
	}
}

// socket sends messages on a WebSocket.
type socket struct {
	mu         sync.Mutex // held while writing
	connection *websocket.Conn
}

// sendMessage writes one message.
func (k *socket) sendMessage(event, id string, data any) error {
	message := LogMessage{Type: event, Data: data, ID: id}
	if line, ok := data.(joblogs.Line); ok {
		message.Data = line.Text
		message.Line = &LineOrigin{Source: line.Source, Time: line.Time}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.connection.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	if err := k.connection.WriteJSON(message); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// readUntilGone reads what the client sends: pongs and the close message. It calls ended when the client is gone or stops answering, and then closes the
// channel that it returns.
func (k *socket) readUntilGone(ended func()) <-chan struct{} {
	k.connection.SetReadLimit(maxFromClient)
	alive := func(string) error { return k.connection.SetReadDeadline(time.Now().Add(pongTimeout)) }
	k.connection.SetPongHandler(alive)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer ended()
		if alive("") != nil {
			return
		}
		for {
			_, message, err := k.connection.NextReader()
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, message); err != nil {
				return
			}
		}
	}()
	return gone
}

// keepAlive pings the client until the returned function is called.
func (k *socket) keepAlive(ctx context.Context) (stop func()) {
	return repeatAtHeartbeat(ctx, func() {
		_ = k.connection.WriteControl(websocket.PingMessage, nil, time.Now().Add(eventTimeout)) // a client that is gone ends ctx
	})
}

// closeWithReason sends the reason and waits a moment for the client's close message, so that the data sent before arrives.
func (k *socket) closeWithReason(code int, reason string, gone <-chan struct{}) {
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	deadline := time.Now().Add(closeTimeout)
	if k.connection.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), deadline) == nil {
		select {
		case <-gone:
		case <-time.After(closeTimeout):
		}
	}
	_ = k.connection.Close() // everything has been sent
}
