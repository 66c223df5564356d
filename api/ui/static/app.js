// The script of the dashboard: keeps the live parts of a page up to date, draws the charts, selects rows.
// Everything but the charts works without this script.
(function () {
  'use strict';

  // morph makes an element like another one, and touches only what differs: focus, selection and open
  // details stay.
  function morph(old, next) {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    for (const a of Array.from(old.attributes)) {
      if (!next.hasAttribute(a.name) && !(a.name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(a.name);
    }
    for (const a of Array.from(next.attributes)) {
      if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    }
    if (!old.hasAttribute('data-keep')) morphChildren(old, next);
  }

  function keyOf(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || '' : '';
  }

  function blank(node) {
    return node.nodeType === Node.TEXT_NODE && node.data.trim() === '';
  }

  // visible is the node, or the next sibling that is not blank.
  function visible(node) {
    while (node && blank(node)) node = node.nextSibling;
    return node;
  }

  // morphChildren goes through both lists. Elements that come and go have keys, so that their neighbours
  // stay.
  function morphChildren(old, next) {
    const wanted = Array.from(next.childNodes).filter(function (node) { return !blank(node); });
    const keys = new Set(wanted.map(keyOf));
    for (const child of Array.from(old.children)) {
      if (keyOf(child) && !keys.has(keyOf(child))) child.remove();
    }
    const keyed = new Map();
    for (const child of old.children) {
      if (keyOf(child)) keyed.set(keyOf(child), child);
    }
    let at = visible(old.firstChild);
    for (const child of wanted) {
      const known = keyed.get(keyOf(child));
      if (known && known !== at) {
        old.insertBefore(known, at);
        at = known;
      }
      if (!at || (keyOf(child) && !known)) {
        old.insertBefore(child, at);
        continue;
      }
      const following = visible(at.nextSibling);
      morph(at, child);
      at = following;
    }
    while (at) {
      const following = at.nextSibling;
      at.remove();
      at = following;
    }
  }

  // The live parts: htmx asks for them, and morph takes them over.
  document.addEventListener('htmx:beforeRequest', function (event) {
    if (document.hidden) event.preventDefault();
  });
  document.addEventListener('htmx:afterRequest', function (event) {
    const part = event.detail.elt;
    if (!part.classList.contains('live') || !event.detail.xhr) return;
    if (event.detail.xhr.status === 200) {
      const parsed = new DOMParser().parseFromString(event.detail.xhr.responseText, 'text/html');
      morphChildren(part, parsed.body);
      fresh(part);
      drawAll(part);
    } else if (event.detail.xhr.status !== 401) {
      stale(part);
    }
  });

  const seen = new WeakMap(); // when a part was last up to date

  function fresh(part) {
    seen.set(part, new Date());
    part.classList.remove('stale');
    const note = part.previousElementSibling;
    if (note && note.classList.contains('no-answer')) note.remove();
  }

  function stale(part) {
    if (part.classList.contains('stale')) return;
    part.classList.add('stale');
    const note = document.createElement('p');
    note.className = 'note bad no-answer';
    note.setAttribute('role', 'alert');
    note.textContent = 'No answer since ' + (seen.get(part) || new Date()).toISOString().slice(11, 19) + ' UTC. The figures below are from then.';
    part.before(note);
  }

  // The charts: a figure has the points, and its table has the same figures.
  const plots = new WeakMap();

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function short(v) {
    if (v >= 1e6) return +(v / 1e6).toFixed(1) + ' M';
    if (v >= 1e3) return +(v / 1e3).toFixed(1) + ' k';
    return String(+v.toFixed(2));
  }

  function optionsOf(figure, width) {
    const unit = figure.dataset.unit;
    const bars = figure.dataset.kind === 'bars';
    const colours = bars ? [css('--accent')] : [css('--good'), css('--accent'), css('--bad')];
    const axis = { stroke: css('--muted'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line'), width: 1 }, font: '12px system-ui, sans-serif' };
    return {
      width: width,
      height: 190,
      tzDate: function (seconds) { return uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'); },
      cursor: { points: { size: 6 } },
      scales: { y: { range: function (u, min, max) { return [0, Math.max(max, 1) * 1.1]; } } },
      axes: [
        Object.assign({ values: [[86400, '{D} {MMM}', null, null, null, null, null, null, 1], [3600, '{HH}:{mm}', '\n{D} {MMM}', null, null, null, null, null, 1], [1, '{HH}:{mm}', null, null, null, null, null, null, 1]] }, axis),
        Object.assign({ size: 52, values: function (u, splits) { return splits.map(short); } }, axis)
      ],
      series: [{ value: '{YYYY}-{MM}-{DD} {HH}:{mm}' }].concat(figure.dataset.series.split('|').map(function (label, i) {
        const series = { label: label, stroke: colours[i], width: bars ? 0 : 1.5, points: { show: false }, value: function (u, v) { return v === null ? '–' : (bars ? '≈ ' : '') + short(v) + ' ' + unit; } };
        if (bars) {
          series.fill = colours[i];
          series.paths = uPlot.paths.bars({ size: [0.8, 40], align: 1 });
        }
        return series;
      }))
    };
  }

  function draw(figure) {
    const plot = figure.querySelector('.plot');
    const points = figure.dataset.points;
    const known = plots.get(plot);
    if (known && known.points === points) return;
    const data = JSON.parse(points);
    if (!data[0] || data[0].length === 0) return;
    if (known) {
      known.points = points;
      known.chart.setData(data);
      return;
    }
    const width = plot.clientWidth;
    if (width === 0) return;
    plots.set(plot, { points: points, chart: new uPlot(optionsOf(figure, width), data, plot) });
    plot.classList.add('drawn');
    resized.observe(plot);
  }

  function drawAll(root) {
    for (const figure of root.querySelectorAll('figure.chart')) draw(figure);
  }

  const resized = new ResizeObserver(function (entries) {
    for (const entry of entries) {
      const known = plots.get(entry.target);
      const width = Math.floor(entry.contentRect.width);
      if (known && width > 0 && width !== known.chart.width) known.chart.setSize({ width: width, height: 190 });
    }
  });

  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () {
    for (const plot of document.querySelectorAll('.plot.drawn')) {
      plots.get(plot).chart.destroy();
      plots.delete(plot);
      plot.classList.remove('drawn');
    }
    drawAll(document);
  });

  // A box that selects all rows of a page.
  function picking() {
    for (const all of document.querySelectorAll('.pick-all')) {
      const boxes = all.closest('table').querySelectorAll('tbody input[type=checkbox]');
      all.hidden = false;
      all.addEventListener('change', function () {
        for (const box of boxes) box.checked = all.checked;
      });
      for (const box of boxes) {
        box.addEventListener('change', function () {
          const n = Array.from(boxes).filter(function (b) { return b.checked; }).length;
          all.checked = n === boxes.length;
          all.indeterminate = n > 0 && n < boxes.length;
        });
      }
    }
  }

  // A change to many goes on by itself, until the operator leaves the page.
  function goingOn() {
    const form = document.querySelector('form.go-on');
    if (!form) return;
    form.querySelector('.by-itself').hidden = false;
    setTimeout(function () { form.requestSubmit(); }, 400);
  }

  document.addEventListener('DOMContentLoaded', function () {
    goingOn();
    for (const part of document.querySelectorAll('.live')) seen.set(part, new Date());
    drawAll(document);
    picking();
  });
})();
