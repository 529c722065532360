"""The words of the sample annual report, and the questions they answer. Everything is invented."""

# ruff: noqa: E501  # running text reads better unbroken
from __future__ import annotations

from typing import TypeAlias

__all__ = ["FACTS", "Section"]

Section: TypeAlias = tuple[tuple[str, str], ...]
"""(kind, words): h heading, s subheading, l lead, p paragraph, n small print."""

CONTENTS = (
    ("Letter from the Chair", "1"),
    ("Strategy", "2"),
    ("Performance and financial review", "3"),
    ("Business review by segment", "4"),
    ("Principal risks", "5"),
    ("Governance and sustainability", "6"),
    ("Consolidated income statement", "7"),
    ("Consolidated balance sheet", "8"),
    ("Consolidated cash flow statement", "9"),
    ("Notes to the accounts", "10"),
)

LETTER_LEAD = (
    "Utilities lose about a quarter of the water they treat before it reaches a customer. In 2025 more of them "
    "decided to measure that loss, and more of them chose our instruments to do it."
)
LETTER: Section = (
    ("s", "A year of steady progress"),
    (
        "p",
        "Revenue rose by 7.4% to £412.2 million, of which 6.1% was organic. Operating profit grew faster, by 12.7% to "
        "£52.2 million, although it carries £3.9 million for closing the Tolbeck assembly line. Every segment grew, "
        "and for the third year in a row the order book ended the year higher than it began.",
    ),
    (
        "p",
        "The closure of Tolbeck was the hardest decision of the year. The line had made mechanical meters since 1974, "
        "and demand for them had halved in four years. Of the 138 colleagues concerned, 91 moved to other roles in the "
        "group. We thank them all for what they built.",
    ),
    ("s", "Investing ahead of demand"),
    (
        "p",
        "At Harrowmere we commissioned a second calibration hall in September. It cost £14.2 million and raises our "
        "capacity from 310,000 to 460,000 meters a year. The first large batch from the hall, for the Wexcombe "
        "programme, passed acceptance without a single rejected unit.",
    ),
    (
        "p",
        "We spent £31.4 million on research and development, 7.6% of revenue. The Lumen range, our first ultrasonic "
        "meter without a replaceable battery, entered field trials with eleven utilities in five countries. We expect "
        "to offer it for general sale in the second half of 2026.",
    ),
    ("s", "Dividend"),
    (
        "p",
        "The Board proposes a final dividend of 7.8 pence per share. Together with the interim dividend of 3.8 pence "
        "this makes 11.6 pence for the year, against 10.4 pence for 2024, an increase of 11.5%. If shareholders "
        "approve, it will be paid on 29 May 2026 to those on the register on 24 April 2026.",
    ),
    ("s", "The Board"),
    (
        "p",
        "Two directors joined during the year, bringing experience in data security and in public procurement. Our "
        "Senior Independent Director will retire after the annual general meeting, having served nine years, and we "
        "have begun the search for a successor.",
    ),
    ("s", "Outlook"),
    (
        "p",
        "We enter 2026 with an order book of £187.4 million, 10.4% above last year. Copper and electronics prices have "
        "settled, and the regulatory periods that begin in three of our main markets ask utilities to report losses "
        "by district. We expect organic growth between 6% and 8% and a further rise in the operating margin.",
    ),
    ("p", "<i>The Chair</i><br/>26 February 2026"),
)

STRATEGY: Section = (
    ("h", "Strategy"),
    ("l", "Measure more, explain what was measured, and stand behind it for twenty years."),
    ("s", "1. Lead in metering"),
    (
        "p",
        "Our meters are bought once and read for two decades. Accuracy over that life, not on the day of purchase, "
        "decides what they are worth. We calibrate each unit individually, keep its record for its whole life, and "
        "replace free of charge any meter that drifts by more than 2% within twelve years.",
    ),
    (
        "p",
        "By 2027 we want 70% of metering revenue to come from solid-state meters, which have no moving parts. In 2025 "
        "the share was 58%, after 51% in 2024.",
    ),
    ("s", "2. Sense the network"),
    (
        "p",
        "A meter says how much water arrived. Pressure and acoustic sensors say where it went. Our Sonde sensors "
        "now listen to 21,400 kilometres of pipe, and customers who act on their alarms report leaks found 18 days "
        "earlier on average.",
    ),
    (
        "p",
        "Growth in Sensing slowed to 3.5% because two large customers postponed orders into 2026. The underlying "
        "pipeline is the strongest we have seen, and prices held.",
    ),
    ("s", "3. Grow services"),
    (
        "p",
        "Services turn a sale into a relationship: calibration on site, data hosting under the customer's own keys, "
        "and network audits. Revenue grew by 13.1%, and 94% of contracts that came up for renewal were renewed.",
    ),
    ("s", "4. Make it responsibly"),
    (
        "p",
        "Since March all electricity at Harrowmere and Vellin has come from wind and hydro power under ten-year "
        "contracts. Our brass alloy has been free of lead since 2022. From 2026 the pay of senior managers depends "
        "in part, 15% of the annual bonus, on emissions and safety.",
    ),
    ("s", "How we allocate capital"),
    (
        "p",
        "First we maintain and extend our plants. Second we raise the dividend in line with earnings. Third we buy "
        "small companies whose technology we know as customers. What remains reduces debt. We do not borrow to buy "
        "back shares, and we keep net debt below 1.5 times EBITDA except for a short time after an acquisition.",
    ),
    ("s", "People"),
    (
        "p",
        "At the end of the year we employed 2,146 people, 58 more than a year before. Engineers and technicians make "
        "up 41% of them. Voluntary turnover fell to 6.9%. The apprentice programme took on 64 young people, and 57 of "
        "the 59 who finished were offered a permanent position.",
    ),
    (
        "p",
        "Each employee has two days a year for learning of their own choice. The most popular course of 2025 was an "
        "introduction to statistics for people who read instruments.",
    ),
    ("s", "What would change our mind"),
    (
        "p",
        "The strategy rests on two assumptions: that regulators go on paying utilities for water saved, and that "
        "the cost of solid-state metering falls by about 4% a year. If either fails for two years in a row, the "
        "Board will review the investment plan before it approves the next hall.",
    ),
)

PERFORMANCE: Section = (
    ("h", "Performance and financial review"),
    (
        "p",
        "We judge ourselves by eight measures. Three are financial, one looks ahead, and four describe how the "
        "business is run. Targets were set in 2024 and have not been changed.",
    ),
)
FINANCIAL_REVIEW: Section = (
    ("s", "Revenue and profit"),
    (
        "p",
        "Revenue was £412.2 million (2024: £383.8 million). Currency took away £2.1 million, and the calibration "
        "business bought in late 2024 added £7.1 million. The gross margin improved from 39.8% to 40.9% as more meters "
        "were solid-state and scrap fell. Administration grew by only 3.1%.",
    ),
    ("s", "Finance costs and tax"),
    (
        "p",
        "Net finance costs fell to £5.7 million as debt was repaid. The effective tax rate was 24.1% (2024: 24.5%). "
        "Profit for the year rose by 18.1% to £35.3 million.",
    ),
    ("s", "Cash and debt"),
    (
        "p",
        "Net cash from operating activities was £81.5 million. We invested £30.9 million in plants and software and "
        "repaid £18.0 million of borrowings. Net debt, without leases, fell from £80.1 million to £51.3 million, which "
        "is 0.64 times EBITDA. The revolving credit facility of £75.0 million, which runs until March 2029, was not "
        "drawn at the end of the year.",
    ),
    ("s", "Capital expenditure"),
    (
        "p",
        "The second hall at Harrowmere accounts for £14.2 million over two years, £9.6 million of it in 2025. For 2026 "
        "we plan to spend about £34 million, most of it on automated assembly for the Lumen range.",
    ),
)

SEGMENTS: Section = (
    ("h", "Business review by segment"),
    ("p", "The group reports three segments. Central costs are those of the head office and of shared research."),
)
SEGMENTS_REVIEW: Section = (
    ("s", "Metering"),
    (
        "p",
        "Metering makes electromagnetic, ultrasonic and mechanical flow meters for mains and buildings. Revenue grew by "
        "8.2% to £214.6 million and operating profit to £33.1 million, a margin of 15.4%. The largest single contract, "
        "for the Wexcombe programme, was worth £26.8 million; deliveries began in October and will end in mid-2027.",
    ),
    (
        "p",
        "Lead times fell from eleven weeks to seven. Sales of mechanical meters declined by 22% and are now less than a "
        "tenth of the segment.",
    ),
    ("s", "Sensing"),
    (
        "p",
        "Sensing makes pressure, quality and acoustic sensors. Revenue grew by 3.5% to £131.9 million. Operating profit "
        "rose to £19.4 million, since a larger part of sales came from the Sonde range, which is made in Vellin at lower "
        "cost. Two customers postponed orders of £9.3 million in all into 2026; neither order was cancelled.",
    ),
    ("s", "Services"),
    (
        "p",
        "Services comprise calibration, hosting and network audits. Revenue grew by 13.1% to £65.7 million and operating "
        "profit to £9.8 million. We performed 41,200 calibrations on site. The hosting platform was available for 99.97% "
        "of the year, and no customer data was lost or disclosed.",
    ),
    ("s", "Looking ahead"),
    (
        "p",
        "For 2026 we expect Metering to grow faster than the group, Sensing to recover the postponed orders, and Services "
        "to open laboratories in two further countries.",
    ),
)

RISK_INTRO: Section = (
    ("h", "Principal risks"),
    (
        "p",
        "The Board reviews the risks that could keep us from our aims twice a year. Those below matter most; the order "
        "follows their weight. The trend compares with last year.",
    ),
)
RISKS = (
    (
        "Supply of electronics",
        "One supplier makes 62% of our measuring chips. An interruption of more than ten weeks would stop solid-state "
        "assembly.",
        "Safety stock of fourteen weeks; a second source is qualified and will deliver from the third quarter of 2026.",
        "Lower",
    ),
    (
        "Cyber security",
        "An attack on the hosting platform could expose consumption data or halt readings.",
        "Customers hold their own keys; yearly penetration tests; recovery was exercised within 5 hours in November.",
        "Higher",
    ),
    (
        "Regulation",
        "A regulator could lower the allowance for leakage work, and customers would postpone orders.",
        "No regulator's area makes more than 29% of revenue; service contracts run for five years on average.",
        "Same",
    ),
    (
        "Product quality",
        "A drift in the field could lead to the replacement of whole series.",
        "Each meter is calibrated singly; 1 in 400 is kept running in our ageing laboratory; warranty provision £3.4 million.",
        "Same",
    ),
    (
        "Prices of copper and brass",
        "A rise of 10% costs about £2.6 million before price increases.",
        "Half of the need is bought forward for nine months; contracts above two years carry an index clause.",
        "Lower",
    ),
    (
        "Currency",
        "A fall of the euro by 5% lowers operating profit by about £1.9 million.",
        "Costs in Vellin offset part of it; 70% of the rest is hedged for a year.",
        "Same",
    ),
    (
        "Skilled staff",
        "Metrologists and embedded engineers are scarce near Harrowmere.",
        "Apprenticeships, a second research site in Vellin, and paid retraining.",
        "Same",
    ),
    (
        "Pension scheme",
        "A fall of the discount rate by 0.5 points raises the obligation by £7.3 million.",
        "The scheme is closed to new members; matching assets cover 83% of the interest risk.",
        "Lower",
    ),
)
RISK_END: Section = (
    (
        "p",
        "The Board has assessed the prospects of the group over three years, with a case in which the largest supplier "
        "fails and revenue falls by 15%. In that case the group would stay within its covenant, net debt below 3.0 times "
        "EBITDA, and would not need new finance.",
    ),
)

GOVERNANCE: Section = (
    ("h", "Governance and sustainability"),
    ("s", "The Board"),
    (
        "p",
        "The Board has nine members: the Chair, two executive and six independent directors. Four of the nine are women. "
        "It met ten times in 2025, and attendance was 98%. An external review in June found the Board effective and asked "
        "for more time on technology; two meetings a year are now held at a plant.",
    ),
    ("s", "Audit Committee"),
    (
        "p",
        "The committee met five times. It examined above all the capitalisation of development costs, the warranty "
        "provision and the restructuring of Tolbeck. Fennick and Hale LLP have been the auditor since 2019. Their fee for "
        "the audit was £0.9 million; they did no other work. The committee recommends that they be appointed again.",
    ),
    ("s", "Remuneration"),
    (
        "p",
        "The policy was approved in 2024 with 94.6% of the votes. The bonus of the executive directors came to 71% of the "
        "maximum. Salaries rise by 3.5% in 2026, as they do for all employees in the United Kingdom. The pay of the Chief "
        "Executive was 24 times the median pay in the group.",
    ),
    ("s", "Climate and energy"),
    (
        "p",
        "Emissions of scope 1 and 2 fell by 13.0% to 9,840 tonnes of CO2 equivalent, chiefly because the furnace at "
        "Harrowmere now runs on electricity. We aim for 7,900 tonnes by 2027 and for none by 2038. Energy use per meter "
        "made fell by 5.6%.",
    ),
    (
        "p",
        "The larger effect lies with our customers: we estimate that networks equipped with our sensors avoided the loss "
        "of 212 million cubic metres of water in 2025. The estimate follows a published method and was reviewed, though "
        "not audited, by an outside expert.",
    ),
    ("s", "Safety"),
    (
        "p",
        "There were 0.42 lost-time injuries per 100,000 hours worked, after 0.51 the year before. There was no fatal "
        "accident. The most frequent cause remains the handling of heavy meter bodies; lifting aids were fitted at 37 "
        "further work places.",
    ),
    ("s", "Suppliers and human rights"),
    (
        "p",
        "We buy from 640 suppliers in 23 countries. During the year 118 of them were visited. We ended our relationship "
        "with two that would not give access to their records. Our statement on modern slavery is on the company's site.",
    ),
    ("s", "Community"),
    (
        "p",
        "Employees gave 4,300 hours of paid time to local projects. The group gave £0.4 million to charities and nothing "
        "to political parties.",
    ),
)

YEAR_ENDED: Section = (("n", "For the year ended 31 December. Figures in brackets are costs or payments."),)
AT_YEAR_END: Section = (("n", "At 31 December. Figures in brackets are liabilities or negative reserves."),)
OTHER_INCOME: Section = (
    (
        "p",
        "Basic earnings per share were 29.8 pence (2024: 25.3 pence), on a weighted average of 118.4 million shares "
        "(2024: 118.0 million). Diluted earnings per share were 29.4 pence (2024: 25.0 pence).",
    ),
    ("s", "Consolidated statement of comprehensive income"),
)
APPROVAL: Section = (
    ("n", "The accounts were approved by the Board on 26 February 2026 and signed on its behalf by the Chair."),
)
CASH_NOTE: Section = (
    (
        "p",
        "Working capital released £3.9 million: inventories fell by £5.6 million, receivables rose by £5.4 million and "
        "payables by £3.7 million. Interest received is shown under investing, interest paid under financing activities.",
    ),
)

NOTES: Section = (
    ("h", "Notes to the accounts"),
    ("s", "1. Basis of preparation"),
    (
        "p",
        "The accounts follow international standards as adopted in the United Kingdom, on the basis of historical cost, "
        "except for derivatives and plan assets, which are at fair value. They are in pounds sterling, rounded to £0.1 "
        "million.",
    ),
    ("s", "2. Revenue by region"),
)
NOTES_END: Section = (
    ("s", "3. Goodwill"),
    (
        "p",
        "Goodwill of £88.4 million belongs to Metering (£52.7 million) and Sensing (£35.7 million). It was tested with a "
        "discount rate of 9.2% before tax and a long-term growth rate of 2.0%. No impairment was found.",
    ),
    ("s", "4. Provisions"),
    (
        "p",
        "Provisions of £5.6 million consist of £3.4 million for warranties and £2.2 million for the restructuring of "
        "Tolbeck, which will be used by the end of 2026.",
    ),
    ("s", "5. Retirement benefits"),
    (
        "p",
        "The deficit of £12.4 million is the difference between obligations of £142.6 million and plan assets of £130.2 "
        "million. The discount rate was 5.3% (2024: 4.9%).",
    ),
    ("s", "6. Contingent liabilities"),
    (
        "p",
        "A former distributor claims £4.1 million for the termination of its contract. The Board, advised by counsel, "
        "considers a payment unlikely, and no provision was made.",
    ),
    ("s", "7. Events after the year end"),
    (
        "p",
        "On 9 February 2026 the group agreed to buy Brackwater Analytics, a maker of leak-detection software with 46 "
        "employees, for £23.5 million in cash. Completion is expected in April 2026.",
    ),
)

# question, answer, accepted spellings, physical page, words on that page
FACTS: tuple[tuple[str, str, tuple[str, ...], int, str], ...] = (
    ("What was the group's revenue in 2025?", "£412.2 million", ("412.2", "£412.2m"), 5, "Revenue was £412.2 million"),
    ("By how much did operating profit grow in 2025?", "12.7%", ("12.7 %", "12.7 percent"), 3,
     "Operating profit grew faster, by 12.7%"),
    ("What dividend per share is paid for 2025 in all?", "11.6 pence", ("11.6p",), 3, "this makes 11.6 pence for the year"),
    ("How much did the second calibration hall at Harrowmere cost?", "£14.2 million", ("14.2", "£14.2m"), 3,
     "It cost £14.2 million"),
    ("What share of metering revenue came from solid-state meters in 2025?", "58%", ("58 percent",), 4,
     "the share was 58%"),
    ("How many people did the group employ at the end of 2025?", "2,146", ("2146",), 4, "we employed 2,146 people"),
    ("Until when does the revolving credit facility run?", "March 2029", (), 5, "until March 2029"),
    ("What was the operating profit of Metering in 2025?", "£33.1 million", ("33.1", "£33.1m"), 6,
     "operating profit to £33.1 million"),
    ("What share of the measuring chips comes from one supplier?", "62%", ("62 percent",), 7, "62%"),
    ("Who is the auditor of Aldermoor Instruments?", "Fennick and Hale LLP", ("Fennick & Hale",), 8,
     "Fennick and Hale LLP have been the auditor"),
    ("What were scope 1 and 2 emissions in 2025?", "9,840 tonnes", ("9840",), 8, "9,840 tonnes"),
    ("What were the basic earnings per share in 2025?", "29.8 pence", ("29.8p",), 9, "29.8 pence"),
    ("What were the inventories at the end of 2025?", "61.2", ("£61.2 million", "£61.2m"), 10, "61.2"),
    ("How much cash was there at the end of 2025?", "38.7", ("£38.7 million", "£38.7m"), 11, "38.7"),
    ("For how much did the group agree to buy Brackwater Analytics?", "£23.5 million", ("23.5", "£23.5m"), 12,
     "for £23.5 million in cash"),
    ("What discount rate was used for retirement benefits in 2025?", "5.3%", ("5.3 percent",), 12,
     "discount rate was 5.3%"),
)  # fmt: skip
