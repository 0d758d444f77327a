package cli

import (
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func TestDescribeNotify(t *testing.T) {
	at := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	on := []string{"failed", "evicted"}
	tests := map[string]struct {
		notify           *inventory.Notify
		english, chinese string
	}{
		"nobody":      {nil, "", ""},
		"nothing yet": {&inventory.Notify{Channel: "ml", On: on}, "Notify:      channel ml, when the job failed or was evicted\n", "通知：       通道 ml，通知时机：任务失败 或 被驱逐\n"},
		"told": {
			&inventory.Notify{Channel: "ml", On: on, Notified: "failed", NotifiedAt: at},
			"Notify:      channel ml, when the job failed or was evicted; told that it failed, 2026-05-04T12:00:00Z (3m ago)\n",
			"通知：       通道 ml，通知时机：任务失败 或 被驱逐；最近一次通知：任务失败，2026-05-04T12:00:00Z（3m 前）\n",
		},
		"not told": {
			&inventory.Notify{Channel: "ml", On: on[:1], FailureReason: "it answered 404"},
			"Notify:      channel ml, when the job failed; not told: it answered 404\n", "通知：       通道 ml，通知时机：任务失败；未能通知：it answered 404\n",
		},
		"told of one, and not of the next": {
			&inventory.Notify{Channel: "ml", On: on[1:], Notified: "evicted", NotifiedAt: at, FailureReason: "it answered 500"},
			"Notify:      channel ml, when the job was evicted; told that it was evicted, 2026-05-04T12:00:00Z (3m ago); not told: it answered 500\n",
			"通知：       通道 ml，通知时机：任务被驱逐；最近一次通知：任务被驱逐，2026-05-04T12:00:00Z（3m 前）；未能通知：it answered 500\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for language, want := range map[phrase.Language]string{phrase.English: tc.english, phrase.Chinese: tc.chinese} {
				streams, out, _ := TestIOStreams("")
				streams.Language = language
				describeNotify(newDescription(streams), tc.notify, at.Add(3*time.Minute))
				if out.String() != want {
					t.Errorf("it says\n%swant\n%s", out, want)
				}
			}
		})
	}
}
