package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/fair"
)

const (
	// smallAnswer is the size in bytes up to which an answer needs no reserved room: the system usually buffers that much for a client.
	smallAnswer = 16 << 10
	// modestAnswer is the size up to which only the caller is charged, and not the whole namespace.
	modestAnswer = 256 << 10
	// chunk is how much of an answer a client must read per chunkTime; a slower client is cut off.
	chunk     = 64 << 10
	chunkTime = 10 * time.Second
	// takeTimeout is how long a client may read an answer slowly while others have no room.
	takeTimeout = 5 * time.Second
	// waitingAnswers is how many answers of each caller wait for room in memory; further ones are not sent.
	waitingAnswers = 2
	// waitForRoom is how long they wait.
	waitForRoom = 20 * time.Second
)

// Answers bounds the memory of answers until their last byte was read by the client: only a few are built at once, and those waiting to be read have
// a maximum total size. A client that does not read only delays itself. If others have no room, answers that were not read for long are cut.
type Answers struct {
	making, modest, sending *fair.Gate
}

// NewAnswers bounds answers by the bytes of all, and of each caller. Another quarter is reserved for modest answers.
func NewAnswers(total, each int) *Answers {
	cores := runtime.GOMAXPROCS(0)
	return &Answers{
		making:  fair.New(fair.Limits{Total: max(2, cores), Each: max(1, cores-1), Waiting: 1024}),
		modest:  fair.New(fair.Limits{Total: total / 4, Each: total / 32, Waiting: 8, ReclaimAfter: takeTimeout}),
		sending: fair.New(fair.Limits{Total: total, Each: each, Waiting: waitingAnswers, ReclaimAfter: takeTimeout}),
	}
}

// PayingIdentity returns the identity that is charged for a user. A namespace can create any number of service accounts, so they count as one.
func PayingIdentity(user string) string {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		return "system:serviceaccount:" + namespace
	}
	return user
}

// ErrNotTaken says that an answer is not sent because too many answers of the caller wait to be read.
var ErrNotTaken = errors.New("too many of your answers wait to be read: read them, and ask again")

type answerKey struct{}

// Answer is the writer of an answer. Large answers are sent when there is room for them.
type Answer struct {
	http.ResponseWriter
	answers *Answers
	ctx     context.Context //nolint:containedctx // the context of the single request that it answers
	// who is the caller, and payer the identity charged for unread answers.
	who, payer string
	// refuse answers in place of an answer that cannot be sent.
	refuse func(http.ResponseWriter, error)
	// status is the status still to be written, 0 for none.
	status  int
	refused bool
	// held are functions that release resources once there is room for the answer.
	held []func()

	mu  sync.Mutex // held while a deadline is set
	cut bool
}

// ServeBounded lets a handler answer a caller within bounds, and calls refuse in place of an answer that cannot be sent.
func (a *Answers) ServeBounded(w http.ResponseWriter, r *http.Request, next http.Handler, who string, refuse func(http.ResponseWriter, error)) {
	out := &Answer{ResponseWriter: w, answers: a, who: who, payer: PayingIdentity(who), refuse: refuse}
	defer out.endAnswer()
	out.ctx = context.WithValue(r.Context(), answerKey{}, out)
	next.ServeHTTP(out, r.WithContext(out.ctx))
}

// UntilSent calls leave when there is room for the answer to the context's request: what was built for it takes memory until then. If answers are not
// bounded, it calls leave at once.
func UntilSent(ctx context.Context, leave func()) {
	if out, ok := ctx.Value(answerKey{}).(*Answer); ok {
		out.held = append(out.held, leave)
		return
	}
	leave()
}

// EncodeInTurn calls encode in the caller's turn, and writes its output to w when the turn is over: building an answer takes memory, too. A write
// error is not reported, because the client is gone.
func EncodeInTurn(w http.ResponseWriter, encode func(io.Writer) error) error {
	out := findAnswer(w)
	if out == nil {
		return encode(w)
	}
	leave, err := out.answers.making.Enter(out.ctx, out.who, 1)
	if err != nil {
		return err
	}
	defer leave()
	var sent error
	err = encode(writerFunc(func(p []byte) (n int, err error) {
		leave()
		n, sent = w.Write(p)
		return n, sent
	}))
	if sent != nil {
		return nil
	}
	return err
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// findAnswer returns the Answer that a writer is, or wraps.
func findAnswer(w http.ResponseWriter) *Answer {
	for {
		switch inner := w.(type) {
		case *Answer:
			return inner
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// WriteHeader stores a status until the answer begins: there may be no room for it.
func (o *Answer) WriteHeader(status int) {
	if status < http.StatusOK {
		o.ResponseWriter.WriteHeader(status)
	} else if o.status == 0 {
		o.status = status
	}
}

// Unwrap gives access to deadlines and connection hijacking. Flushing begins the answer.
func (o *Answer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// FlushError implements the interface that [http.ResponseController] uses.
func (o *Answer) FlushError() error {
	o.startAnswer()
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// startAnswer begins an answer, with net/http's default status if the handler has set none.
func (o *Answer) startAnswer() {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	o.writeStatus()
}

// writeStatus writes the status, once.
func (o *Answer) writeStatus() {
	if o.status > 0 {
		o.ResponseWriter.WriteHeader(o.status)
		o.status = -1
	}
}

// Write sends a part of an answer, within bounds if it is large. A refused answer discards its data.
func (o *Answer) Write(p []byte) (int, error) {
	if o.refused {
		return len(p), nil
	}
	if len(p) <= smallAnswer {
		o.startAnswer()
		return o.ResponseWriter.Write(p)
	}
	wait, cancel := context.WithTimeout(o.ctx, waitForRoom)
	defer cancel()
	gate, who := o.answers.sending, o.payer
	if len(p) <= modestAnswer {
		gate, who = o.answers.modest, o.who
	}
	leave, err := gate.EnterUntil(wait, who, len(p), o.cancelAnswer)
	if err != nil {
		return o.rejectAnswer(p)
	}
	defer leave()
	o.releaseHeld()
	o.startAnswer()
	return o.sendChunks(p)
}

// rejectAnswer refuses an answer that has not begun, and aborts one that has: net/http would otherwise end it as if it were complete.
func (o *Answer) rejectAnswer(p []byte) (int, error) {
	if o.status < 0 {
		o.cancelAnswer()
		return 0, ErrNotTaken
	}
	o.refused, o.status = true, -1
	o.refuse(o.ResponseWriter, ErrNotTaken)
	return len(p), nil
}

// sendChunks writes in chunks, each with its own deadline.
func (o *Answer) sendChunks(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var written int
		o.extendDeadline()
		written, err = o.ResponseWriter.Write(p[:min(len(p), chunk)])
		n, p = n+written, p[written:]
	}
	return n, err
}

// extendDeadline sets the deadline of the next chunk, unless the answer was cut: a truncated answer must not look complete.
func (o *Answer) extendDeadline() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.cut {
		o.setDeadline(time.Now().Add(chunkTime))
	}
}

// cancelAnswer cuts the answer.
func (o *Answer) cancelAnswer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.cut {
		o.cut = true
		o.setDeadline(time.Unix(1, 0))
	}
}

// setDeadline sets the write deadline. Only writers of tests do not support deadlines.
func (o *Answer) setDeadline(at time.Time) {
	_ = http.NewResponseController(o.ResponseWriter).SetWriteDeadline(at)
}

func (o *Answer) releaseHeld() {
	for _, leave := range o.held {
		leave()
	}
	o.held = nil
}

// endAnswer writes a status that has no body. A writer must not be used after its request, not even by cancelAnswer.
func (o *Answer) endAnswer() {
	o.releaseHeld()
	o.mu.Lock()
	o.cut = true
	o.mu.Unlock()
	o.writeStatus()
}
