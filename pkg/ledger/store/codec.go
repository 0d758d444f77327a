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

func (e *encoder) putNumber(n int64) { e.out = binary.AppendVarint(e.out, n) }

func (e *encoder) putText(s string) {
	s = s[:min(len(s), maxText)]
	e.out = binary.AppendUvarint(e.out, uint64(len(s)))
	e.out = append(e.out, s...)
}

func unixSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func encodeHolding(h *ledger.Holding) []byte {
	e := &encoder{out: make([]byte, 0, 256)}
	e.out = append(e.out, codecVersion)
	for _, n := range []int64{unixSeconds(h.From), unixSeconds(h.To), unixSeconds(h.Until), h.Milli} {
		e.putNumber(n)
	}
	for _, s := range []string{
		h.Namespace, h.Job, h.User, h.Pool, h.GPUType, h.Node, // as [row] reads them
		h.UID, h.Pod, h.Kind, h.JobUID, h.Outcome,
	} {
		e.putText(s)
	}
	e.putNumber(int64(h.ExitCode))
	e.putNumber(int64(len(h.GPUs)))
	for _, gpu := range h.GPUs {
		e.putText(gpu.UUID)
		e.putNumber(int64(gpu.Index))
		e.putNumber(gpu.MemoryMiB)
	}
	if h.Load.Measured > 0 {
		e.putNumber(h.Load.Measured.Milliseconds())
		e.putNumber(h.Load.Busy.Milliseconds())
	}
	return e.out
}

// decoder decodes the output of an encoder. Once something is missing, bad is set and everything else is zero.
type decoder struct {
	in  []byte
	bad bool
}

func (d *decoder) readNumber() int64 {
	n, size := binary.Varint(d.in)
	if size <= 0 {
		d.bad, d.in = true, nil
		return 0
	}
	d.in = d.in[size:]
	return n
}

func (d *decoder) readBytes() []byte {
	n, size := binary.Uvarint(d.in)
	if size <= 0 || n > uint64(len(d.in)-size) {
		d.bad, d.in = true, nil
		return nil
	}
	out := d.in[size : size+int(n)]
	d.in = d.in[size+int(n):]
	return out
}

func (d *decoder) readText() string { return string(d.readBytes()) }

func (d *decoder) readVersion() {
	if len(d.in) == 0 || d.in[0] != codecVersion {
		d.bad, d.in = true, nil
		return
	}
	d.in = d.in[1:]
}

// readRow reads the fields that sums need. The result refers to the input bytes.
func (d *decoder) readRow(out *ledger.Row) {
	d.readVersion()
	out.From, out.To, out.Until, out.Milli = d.readNumber(), d.readNumber(), d.readNumber(), d.readNumber()
	out.Namespace, out.Job, out.User = d.readBytes(), d.readBytes(), d.readBytes()
	out.Pool, out.GPUType, out.Node = d.readBytes(), d.readBytes(), d.readBytes()
}

// readRest reads the job and the measured load, after a row.
func (d *decoder) readRest(out *ledger.Row) {
	d.readBytes() // UID
	d.readBytes() // pod
	d.readBytes() // kind
	out.JobUID = d.readBytes()
	d.readBytes() // outcome
	d.readNumber()
	for range d.readNumber() {
		if d.bad {
			return
		}
		d.readBytes()
		d.readNumber()
		d.readNumber()
	}
	out.Load = d.readLoad()
}

// readLoad reads the measured load, zero at the end of the record.
func (d *decoder) readLoad() ledger.Load {
	if len(d.in) == 0 {
		return ledger.Load{}
	}
	return ledger.Load{Measured: fromMillis(d.readNumber()), Busy: fromMillis(d.readNumber())}
}

func fromMillis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func fromUnix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func decodeHolding(in []byte) (ledger.Holding, error) {
	d := &decoder{in: in}
	var row ledger.Row
	d.readRow(&row)
	h := ledger.Holding{
		From: fromUnix(row.From), To: fromUnix(row.To), Until: fromUnix(row.Until), Milli: row.Milli,
		Namespace: string(row.Namespace), Job: string(row.Job), User: string(row.User),
		Pool: string(row.Pool), GPUType: string(row.GPUType), Node: string(row.Node),
		UID: d.readText(), Pod: d.readText(), Kind: d.readText(), JobUID: d.readText(), Outcome: d.readText(),
	}
	h.ExitCode = int32(d.readNumber())
	for range d.readNumber() {
		if d.bad {
			break
		}
		h.GPUs = append(h.GPUs, ledger.GPU{UUID: d.readText(), Index: int(d.readNumber()), MemoryMiB: d.readNumber()})
	}
	h.Load = d.readLoad()
	if d.bad {
		return ledger.Holding{}, errMalformed
	}
	return h, nil
}
