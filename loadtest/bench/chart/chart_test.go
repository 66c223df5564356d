package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"testing"
)

func TestChartIsXMLWhateverItsTexts(t *testing.T) {
	nasty := `<script>"&'` + "\u00e9"
	c := Chart{Title: nasty, Groups: []Group{
		{Label: nasty, Ours: true, Bars: []Bar{{Label: nasty, Value: 5, Text: nasty}}},
		{Label: "nothing", Bars: []Bar{{Value: 0}, {Value: -1}, {Value: math.NaN()}, {Value: math.Inf(1)}}},
	}}
	svg := c.SVG()
	if bytes.Contains(svg, []byte("<script")) {
		t.Error("a text became an element")
	}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	texts, rects := 0, 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			if string(token) == nasty {
				texts++
			}
		case xml.StartElement:
			if token.Name.Local == "rect" {
				rects++
			}
		}
	}
	if texts != 2 || rects != 5 { // title and label; the label of a bar stands behind the text
		t.Errorf("%d texts and %d bars, want 2 and 5", texts, rects)
	}
}

func TestLength(t *testing.T) {
	linear := Chart{Groups: []Group{{Bars: []Bar{{Value: 100}, {Value: 50}}}, {Bars: []Bar{{Value: 0}}}}}
	logarithmic := Chart{Logarithmic: true, Groups: []Group{{Bars: []Bar{{Value: 1}, {Value: 10}, {Value: 100}}}}}
	alone := Chart{Logarithmic: true, Groups: []Group{{Bars: []Bar{{Value: 3}}}}}
	for _, test := range []struct {
		name  string
		chart *Chart
		value float64
		want  float64
	}{
		{"longest", &linear, 100, longest},
		{"half", &linear, 50, longest / 2},
		{"nothing", &linear, 0, 1},
		{"no number", &linear, math.NaN(), 1},
		{"smallest of a logarithmic one", &logarithmic, 1, longest * .1},
		{"middle of a logarithmic one", &logarithmic, 10, longest * .55},
		{"longest of a logarithmic one", &logarithmic, 100, longest},
		{"one alone", &alone, 3, longest},
	} {
		if got := test.chart.length(test.value); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %v is %v long, want %v", test.name, test.value, got, test.want)
		}
	}
}
