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
	// smallAnswer is what an answer may have, in bytes, without having to find room: what the system takes for a client as a rule.
	smallAnswer = 16 << 10
	// modestAnswer is what an answer may have for which only who asks pays, and not all of a namespace.
	modestAnswer = 256 << 10
	// chunk is how much of an answer has to be taken in chunkTime: who reads slower than that reads nothing.
	chunk     = 64 << 10
	chunkTime = 10 * time.Second
	// untaken is how long an answer may be taken slowly for which others have no room.
	untaken = 5 * time.Second
	// waitingAnswers is how many answers wait for room of each who asks, in memory; one more is not sent.
	waitingAnswers = 2
	// waitForRoom is how long they do.
	waitForRoom = 20 * time.Second
)

// Answers keeps what answers take of memory within bounds, until the last byte of them was taken: few are put together at once,
// and those that wait to be read are so many bytes at the most. Whoever reads no answers waits behind themselves. Where others have
// no room, what was not taken for long is cut.
type Answers struct {
	making, modest, sending *fair.Gate
}

// NewAnswers bounds answers by the bytes of all, and of each who asks. A quarter more is for those that are modest.
func NewAnswers(total, each int) *Answers {
	cores := runtime.GOMAXPROCS(0)
	return &Answers{
		making:  fair.New(fair.Limits{Total: max(2, cores), Each: max(1, cores-1), Waiting: 1024}),
		modest:  fair.New(fair.Limits{Total: total / 4, Each: total / 32, Waiting: 8, Patience: untaken}),
		sending: fair.New(fair.Limits{Total: total, Each: each, Waiting: waitingAnswers, Patience: untaken}),
	}
}

// Payer is who pays for what is done for a user. A namespace makes as many service accounts as it likes, and is one.
func Payer(user string) string {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		return "system:serviceaccount:" + namespace
	}
	return user
}

// ErrNotTaken says that an answer is not sent, as too many of the caller's wait to be read.
var ErrNotTaken = errors.New("too many of your answers wait to be read: read them, and ask again")

type answerKey struct{}

// Answer is what an answer is written to. What is larger than most is sent when there is room for it.
type Answer struct {
	http.ResponseWriter
	answers *Answers
	ctx     context.Context //nolint:containedctx // that of the one request that it answers
	// who asks, and who pays for what is not taken.
	who, payer string
	// refuse answers in place of what cannot be sent.
	refuse func(http.ResponseWriter, error)
	// status is what is yet to be written, 0 for nothing.
	status  int
	refused bool
	// held are places that are given back once there is room for the answer.
	held []func()

	mu  sync.Mutex // while a deadline is set
	cut bool
}

// Bounded has a handler answer somebody within bounds, and refuse in place of what cannot be sent.
func (a *Answers) Bounded(w http.ResponseWriter, r *http.Request, next http.Handler, who string, refuse func(http.ResponseWriter, error)) {
	out := &Answer{ResponseWriter: w, answers: a, who: who, payer: Payer(who), refuse: refuse}
	defer out.end()
	out.ctx = context.WithValue(r.Context(), answerKey{}, out)
	next.ServeHTTP(out, r.WithContext(out.ctx))
}

// UntilSent has a place given back when there is room for the answer to the request of a context: what was put together for it takes
// memory until then. Without bounds for answers it is given back at once.
func UntilSent(ctx context.Context, leave func()) {
	if out, ok := ctx.Value(answerKey{}).(*Answer); ok {
		out.held = append(out.held, leave)
		return
	}
	leave()
}

// InTurn calls encode in the turn of who asks, and writes what it writes to w when the turn is over: an answer takes memory while it
// is put together, too. That a client does not take it is told to nobody.
func InTurn(w http.ResponseWriter, encode func(io.Writer) error) error {
	out := answerOf(w)
	if out == nil {
		return encode(w)
	}
	leave, err := out.answers.making.Enter(out.ctx, out.who, 1)
	if err != nil {
		return err
	}
	defer leave()
	var sent error
	err = encode(writer(func(p []byte) (n int, err error) {
		leave()
		n, sent = w.Write(p)
		return n, sent
	}))
	if sent != nil {
		return nil
	}
	return err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// answerOf is the Answer that a writer is, or writes to.
func answerOf(w http.ResponseWriter) *Answer {
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

// WriteHeader keeps a status until the answer begins: there may be no room for it.
func (o *Answer) WriteHeader(status int) {
	if status < http.StatusOK {
		o.ResponseWriter.WriteHeader(status)
	} else if o.status == 0 {
		o.status = status
	}
}

// Unwrap lets deadlines through, and connections that are taken over. What is flushed has begun.
func (o *Answer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// FlushError implements what [http.ResponseController] looks for.
func (o *Answer) FlushError() error {
	o.start()
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// start begins an answer, with the status that net/http takes where the handler names none.
func (o *Answer) start() {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	o.begin()
}

// begin writes the status, once.
func (o *Answer) begin() {
	if o.status > 0 {
		o.ResponseWriter.WriteHeader(o.status)
		o.status = -1
	}
}

// Write sends a part of an answer, within bounds if it is large. What is refused was answered.
func (o *Answer) Write(p []byte) (int, error) {
	if o.refused {
		return len(p), nil
	}
	if len(p) <= smallAnswer {
		o.start()
		return o.ResponseWriter.Write(p)
	}
	wait, cancel := context.WithTimeout(o.ctx, waitForRoom)
	defer cancel()
	gate, who := o.answers.sending, o.payer
	if len(p) <= modestAnswer {
		gate, who = o.answers.modest, o.who
	}
	leave, err := gate.EnterUntil(wait, who, len(p), o.takeBack)
	if err != nil {
		return o.giveUp(p)
	}
	defer leave()
	o.release()
	o.start()
	return o.send(p)
}

// giveUp refuses an answer that has not begun, and breaks one off that has: net/http would end it as if it were the whole.
func (o *Answer) giveUp(p []byte) (int, error) {
	if o.status < 0 {
		o.takeBack()
		return 0, ErrNotTaken
	}
	o.refused, o.status = true, -1
	o.refuse(o.ResponseWriter, ErrNotTaken)
	return len(p), nil
}

// send writes by parts, each of which has its time.
func (o *Answer) send(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var written int
		o.extend()
		written, err = o.ResponseWriter.Write(p[:min(len(p), chunk)])
		n, p = n+written, p[written:]
	}
	return n, err
}

// extend gives the next part its time, unless the answer was cut: what has been sent by then must not look like the whole.
func (o *Answer) extend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.cut {
		o.deadline(time.Now().Add(chunkTime))
	}
}

// takeBack cuts the answer.
func (o *Answer) takeBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.cut {
		o.cut = true
		o.deadline(time.Unix(1, 0))
	}
}

// deadline ends writing at a time. A writer that knows no deadlines is that of a test.
func (o *Answer) deadline(at time.Time) {
	_ = http.NewResponseController(o.ResponseWriter).SetWriteDeadline(at)
}

func (o *Answer) release() {
	for _, leave := range o.held {
		leave()
	}
	o.held = nil
}

// end writes a status that came without a text. No writer may be used after its request, by takeBack either.
func (o *Answer) end() {
	o.release()
	o.mu.Lock()
	o.cut = true
	o.mu.Unlock()
	o.begin()
}
