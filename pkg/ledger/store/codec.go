package store

import (
	"encoding/binary"
	"errors"
	"time"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// A holding is encoded as its version, its numbers, the fields that sums need, and the rest: JSON would take ten times as long to read, and twice the
// space. The measured load is at the end: readers without it still read the rest, and if it is missing nothing was measured.
const codecVersion = 1

// maxText bounds each text of a record: names are shorter, and user-written texts may have a quarter of a megabyte.
const maxText = 512

var errMalformed = errors.New("the ledger's file has a record that cannot be read")

type encoder struct{ out []byte }

func (e *encoder) number(n int64) { e.out = binary.AppendVarint(e.out, n) }

func (e *encoder) text(s string) {
	s = s[:min(len(s), maxText)]
	e.out = binary.AppendUvarint(e.out, uint64(len(s)))
	e.out = append(e.out, s...)
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func encode(h *ledger.Holding) []byte {
	e := &encoder{out: make([]byte, 0, 256)}
	e.out = append(e.out, codecVersion)
	for _, n := range []int64{seconds(h.From), seconds(h.To), seconds(h.Until), h.Milli} {
		e.number(n)
	}
	for _, s := range []string{
		h.Namespace, h.Job, h.User, h.Pool, h.GPUType, h.Node, // as [row] reads them
		h.UID, h.Pod, h.Kind, h.JobUID, h.Outcome,
	} {
		e.text(s)
	}
	e.number(int64(h.ExitCode))
	e.number(int64(len(h.GPUs)))
	for _, gpu := range h.GPUs {
		e.text(gpu.UUID)
		e.number(int64(gpu.Index))
		e.number(gpu.MemoryMiB)
	}
	if h.Load.Measured > 0 {
		e.number(h.Load.Measured.Milliseconds())
		e.number(h.Load.Busy.Milliseconds())
	}
	return e.out
}

// decoder decodes the output of an encoder. Once something is missing, bad is set and everything else is zero.
type decoder struct {
	in  []byte
	bad bool
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.in)
	if size <= 0 {
		d.bad, d.in = true, nil
		return 0
	}
	d.in = d.in[size:]
	return n
}

func (d *decoder) bytes() []byte {
	n, size := binary.Uvarint(d.in)
	if size <= 0 || n > uint64(len(d.in)-size) {
		d.bad, d.in = true, nil
		return nil
	}
	out := d.in[size : size+int(n)]
	d.in = d.in[size+int(n):]
	return out
}

func (d *decoder) text() string { return string(d.bytes()) }

func (d *decoder) version() {
	if len(d.in) == 0 || d.in[0] != codecVersion {
		d.bad, d.in = true, nil
		return
	}
	d.in = d.in[1:]
}

// row reads the fields that sums need. The result refers to the input bytes.
func (d *decoder) row(out *ledger.Row) {
	d.version()
	out.From, out.To, out.Until, out.Milli = d.number(), d.number(), d.number(), d.number()
	out.Namespace, out.Job, out.User = d.bytes(), d.bytes(), d.bytes()
	out.Pool, out.GPUType, out.Node = d.bytes(), d.bytes(), d.bytes()
}

// rest reads the job and the measured load, after a row.
func (d *decoder) rest(out *ledger.Row) {
	d.bytes() // UID
	d.bytes() // pod
	d.bytes() // kind
	out.JobUID = d.bytes()
	d.bytes() // outcome
	d.number()
	for range d.number() {
		if d.bad {
			return
		}
		d.bytes()
		d.number()
		d.number()
	}
	out.Load = d.load()
}

// load reads the measured load, zero at the end of the record.
func (d *decoder) load() ledger.Load {
	if len(d.in) == 0 {
		return ledger.Load{}
	}
	return ledger.Load{Measured: millis(d.number()), Busy: millis(d.number())}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func decode(in []byte) (ledger.Holding, error) {
	d := &decoder{in: in}
	var row ledger.Row
	d.row(&row)
	h := ledger.Holding{
		From: moment(row.From), To: moment(row.To), Until: moment(row.Until), Milli: row.Milli,
		Namespace: string(row.Namespace), Job: string(row.Job), User: string(row.User),
		Pool: string(row.Pool), GPUType: string(row.GPUType), Node: string(row.Node),
		UID: d.text(), Pod: d.text(), Kind: d.text(), JobUID: d.text(), Outcome: d.text(),
	}
	h.ExitCode = int32(d.number())
	for range d.number() {
		if d.bad {
			break
		}
		h.GPUs = append(h.GPUs, ledger.GPU{UUID: d.text(), Index: int(d.number()), MemoryMiB: d.number()})
	}
	h.Load = d.load()
	if d.bad {
		return ledger.Holding{}, errMalformed
	}
	return h, nil
}
