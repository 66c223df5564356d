// Package chart draws bar charts as SVG. The charts are readable on a light and on a dark page, and
// need no script and no font of their own.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// Chart is drawn with the groups one below another. The zero value is empty.
type Chart struct {
	Title       string
	Groups      []Group
	Logarithmic bool // scale of the bars
}

// Group is a set of bars with a common label.
type Group struct {
	Label string
	Ours  bool // drawn in a stronger colour
	Bars  []Bar
}

// Bar is a value. Text stands at the end of the bar.
type Bar struct {
	Label string
	Value float64
	Text  string
}

const (
	width      = 860
	labelRight = 330
	barLeft    = 340
	longest    = 390
	barHeight  = 16
	barStep    = 20
	groupGap   = 10
	top        = 44
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 15px; }
.label { text-anchor: end; }
.ours { fill: #0969da; }
.other { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .ours { fill: #4493f8; }
  .other { fill: #6e7681; }
}
</style>
<text class="title" x="8" y="24">%s</text>
`

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	height := top
	for i := range c.Groups {
		height += len(c.Groups[i].Bars)*barStep + groupGap
	}
	var out bytes.Buffer
	title := html.EscapeString(c.Title)
	fmt.Fprintf(&out, head, width, height, width, height, title, title)
	y := top
	for i := range c.Groups {
		g := &c.Groups[i]
		class := "other"
		if g.Ours {
			class = "ours"
		}
		middle := y + len(g.Bars)*barStep/2 + 3
		fmt.Fprintf(&out, `<text class="label" x="%d" y="%d">%s</text>`+"\n", labelRight, middle, html.EscapeString(g.Label))
		for _, bar := range g.Bars {
			length := c.length(bar.Value)
			text := bar.Text
			if bar.Label != "" {
				text += " " + bar.Label
			}
			fmt.Fprintf(&out, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, barLeft, y, length, barHeight)
			fmt.Fprintf(&out, `<text x="%.1f" y="%d">%s</text>`+"\n", barLeft+length+6, y+barHeight-3, html.EscapeString(text))
			y += barStep
		}
		y += groupGap
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// length is the length of a bar: at least a hairline, also for 0, a negative value or no number.
func (c *Chart) length(value float64) float64 {
	const hairline = 1
	smallest, largest := math.Inf(1), 0.0
	for i := range c.Groups {
		for _, bar := range c.Groups[i].Bars {
			if bar.Value > 0 && !math.IsInf(bar.Value, 0) {
				smallest, largest = min(smallest, bar.Value), max(largest, bar.Value)
			}
		}
	}
	switch {
	case math.IsNaN(value) || value <= 0 || largest == 0:
		return hairline
	case value >= largest:
		return longest
	case !c.Logarithmic:
		return max(hairline, longest*value/largest)
	}
	// The smallest value gets a tenth. Each decade above the smallest value gets the same length.
	decades := math.Log10(largest / smallest)
	return longest * (.1 + .9*math.Log10(value/smallest)/decades)
}
