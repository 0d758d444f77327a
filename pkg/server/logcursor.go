package server

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/joblogs"
)

// logCursor tracks how far each source of an output stream has been sent. It is encoded in the ID of every event, so that a reconnecting client gets
// what it missed from any server, without duplicates. A single time would not suffice: sources are read in parallel, and one may lag behind another.
type logCursor struct {
	at map[uint32]logMark
	// lastTimes is the time of the last line of each source, whether or not it was sent.
	lastTimes map[uint32]int64
	// skip counts, for resumed sources, the lines with the mark's time that remain to be skipped.
	skip map[uint32]uint16
	// resumed are the marks of the sources that the client has seen before.
	resumed map[uint32]logMark
}

// logMark is the last line sent of a source: its time, and the number of lines with exactly that time.
type logMark struct {
	nanos int64
	count uint16
}

// markSize is the encoded size of a mark: hash, time, count.
const (
	markSize = 4 + 8 + 2
	// maxMarks bounds the marks read from a client's ID.
	maxMarks = 1024
	// resumeSlack lets lagging sources resume earlier than those that were sent the furthest.
	resumeSlack = time.Minute
)

// newLogCursor decodes an ID. With an ID that is not ours the stream starts from the beginning.
func newLogCursor(id string) *logCursor {
	c := &logCursor{
		at: map[uint32]logMark{}, lastTimes: map[uint32]int64{}, skip: map[uint32]uint16{}, resumed: map[uint32]logMark{},
	}
	data, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(data)%markSize != 0 || len(data) > maxMarks*markSize {
		return c
	}
	for ; len(data) > 0; data = data[markSize:] {
		mark := logMark{nanos: int64(binary.BigEndian.Uint64(data[4:])), count: binary.BigEndian.Uint16(data[12:])}
		source := binary.BigEndian.Uint32(data)
		c.at[source], c.resumed[source], c.skip[source] = mark, mark, mark.count
	}
	return c
}

// resumeTime returns the time to resume reading from; zero for a new stream.
func (c *logCursor) resumeTime() time.Time {
	if len(c.resumed) == 0 {
		return time.Time{}
	}
	least := slices.MinFunc(slices.Collect(maps.Values(c.resumed)), func(a, b logMark) int { return int(min(max(a.nanos-b.nanos, -1), 1)) })
	return time.Unix(0, least.nanos).Add(-resumeSlack)
}

// acceptLine records a line and reports whether the client still has to get it. A line without a time continues the one before it.
func (c *logCursor) acceptLine(line joblogs.Line) bool {
	source := sourceHash(line.Source)
	before := c.resumed[source]
	nanos := line.Time.UnixNano()
	if line.Time.IsZero() {
		nanos = c.lastTimes[source]
	}
	c.lastTimes[source] = nanos
	switch {
	case before.count > 0 && nanos < before.nanos:
		return false
	case before.count > 0 && nanos == before.nanos && c.skip[source] > 0:
		c.skip[source]--
		return false
	}
	mark := c.at[source]
	if mark.nanos != nanos {
		mark = logMark{nanos: nanos}
	}
	mark.count = min(mark.count, 1<<16-2) + 1
	c.at[source] = mark
	return true
}

func sourceHash(source joblogs.Source) uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(source.Pod + "/" + source.Container)) // hashes do not fail
	return hash.Sum32()
}

// encodeID encodes the cursor, with its sources in a fixed order.
func (c *logCursor) encodeID() string {
	data := make([]byte, 0, len(c.at)*markSize)
	for _, source := range slices.Sorted(maps.Keys(c.at)) {
		data = binary.BigEndian.AppendUint32(data, source)
		data = binary.BigEndian.AppendUint64(data, uint64(c.at[source].nanos))
		data = binary.BigEndian.AppendUint16(data, c.at[source].count)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}
